"""A counter-based generator that can be asked for any number at once, and that devices can compute.

`philox` is the definition: Philox4x32-10 in NumPy. Backends that draw on the device (dropout) compute the same function
with their own integers, bit for bit.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3, and Random123 1.14.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
LANES = 4
MASK = 0xFFFFFFFF

Words = npt.NDArray[np.uint64]


def counter_key(seed: int, *labels: str | int) -> tuple[int, int]:
    """Returns the generator's key for one purpose, two 32-bit words; equal labels give equal keys."""
    text = "\x1f".join(str(part) for part in (seed, *labels))
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")


def philox(key: tuple[int, int], counter: tuple[Words | int, Words | int, Words | int, Words | int]) -> Words:
    """Returns the four 32-bit words for every counter, uint64 of shape (*broadcast counters, 4)."""
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(word, dtype=np.uint64) for word in counter))
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (second >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            second & np.uint64(MASK),
            (first >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            first & np.uint64(MASK),
        )
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return np.stack([c0, c1, c2, c3], axis=-1)


def sample_uniforms(
    seed: int, *labels: str | int, epoch: int, ids: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.float64]:
    """Returns `count` numbers in [0, 1) with 32 random bits for each sample, float64 (len(ids), count).

    The counter is (number of the draw / 4, id, 0, epoch), so a sample's numbers depend on no other sample.

    Args:
        seed: The run's seed.
        labels: What is being drawn.
        epoch: At least 0.
        ids: Of the samples, int64; negative ones stand for padding and get numbers too.
        count: Numbers a sample.
    """
    blocks = np.arange(-(-count // LANES), dtype=np.uint64)
    rows = (ids & MASK).astype(np.uint64)[:, None]
    words = philox(counter_key(seed, *labels), (blocks[None, :], rows, 0, epoch))
    return words.reshape(len(ids), -1)[:, :count].astype(np.float64) * 2.0**-32


def keep_mask(
    seed: int, layer: str, epoch: int, ids: npt.NDArray[np.int64], num_elements: int, probability: float
) -> npt.NDArray[np.bool_]:
    """Returns which elements of each sample dropout leaves, bool (len(ids), num_elements): the definition.

    Element e of a sample's activation, counted in row-major order, is kept when word e % 4 of the counter
    (e / 4, id, 0, epoch) is at least `drop_threshold(probability)`.
    """
    blocks = np.arange(-(-num_elements // LANES), dtype=np.uint64)
    rows = (ids & MASK).astype(np.uint64)[:, None]
    words = philox(dropout_key(seed, layer), (blocks[None, :], rows, 0, epoch)).reshape(len(ids), -1)
    return np.asarray(words[:, :num_elements] >= np.uint64(drop_threshold(probability)))


def dropout_key(seed: int, layer: str) -> tuple[int, int]:
    """Returns the key of a dropout layer's masks."""
    return counter_key(seed, "dropout", layer)


def drop_threshold(probability: float) -> int:
    """Returns the word below which an element is dropped."""
    return round(probability * 2**32)
