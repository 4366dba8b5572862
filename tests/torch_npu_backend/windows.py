"""Windows of random samples for tests of the engine."""

from __future__ import annotations

import numpy as np

from core.contracts import Window


def window(steps: int, rows: int, shape: tuple[int, ...], classes: int, seed: int = 0) -> Window:
    """Returns full batches of one card."""
    random = np.random.default_rng(seed)
    samples = random.normal(size=(steps, rows, *shape)).astype(np.float32)
    labels = random.integers(0, classes, (steps, rows))
    return of(samples, labels, rows)


def of(samples: np.ndarray, labels: np.ndarray, count: int) -> Window:
    """Returns a window of one card, (num_steps, rows, ...), with `count` real samples a step."""
    ids = np.arange(labels.size).reshape(len(labels), 1, -1)
    return Window(samples, labels, np.full(len(labels), count), np.where(labels[:, None] < 0, -1, ids))
