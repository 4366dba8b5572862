"""Random numbers keyed by what is being drawn.

Every draw has its own stream of the Philox counter-based generator, keyed by the run's seed and by labels such as
("init", "conv1.weight"). A draw therefore depends on nothing else: not on the backend, the number of cards, the layout
or what was drawn before. Only the raw 64-bit output of the bit generator is used, because NumPy promises that stream to
stay the same between versions (NEP 19) and promises no such thing of `Generator`'s distributions.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; `numpy.random.Philox`.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt


def stream(seed: int, *labels: str | int) -> np.random.Philox:
    """Returns the bit generator for one purpose.

    Args:
        seed: The run's seed, any integer.
        labels: What is being drawn; equal labels give equal streams.
    """
    text = "\x1f".join(str(part) for part in (seed, *labels))
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.Philox(key=int.from_bytes(digest[:16], "little"))


def uniform(seed: int, *labels: str | int, count: int) -> npt.NDArray[np.float64]:
    """Returns `count` numbers in [0, 1) with 53 random bits each, float64 of shape (count,)."""
    raw = stream(seed, *labels).random_raw(count)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(seed: int, *labels: str | int, count: int) -> npt.NDArray[np.int64]:
    """Returns a permutation of range(count), int64 of shape (count,)."""
    raw = stream(seed, *labels).random_raw(count)
    return np.argsort(raw, kind="stable")
