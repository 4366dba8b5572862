"""Gathering the rows of a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from core.contracts import ArraySplit, Window
from core.contracts.engine import PADDING_LABEL
from core.data.mapped import release_pages

WINDOW_BYTES = 2 * 2**20  # of samples in one window; more costs memory, less costs Python time


def max_window_steps(split: ArraySplit, rows: int) -> int:
    """Returns how many steps of `rows` samples fit into one window; at least 1."""
    sample_bytes = split.samples.itemsize * int(np.prod(split.samples.shape[1:], dtype=np.int64))
    return max(1, WINDOW_BYTES // (rows * sample_bytes))


def gather_window(
    split: ArraySplit, steps: Sequence[npt.NDArray[np.int64]], rows: int, counts: Sequence[int]
) -> Window:
    """Returns the window whose steps hold the given samples.

    Args:
        split: Where they lie.
        steps: For each step the ids of its samples, int64; at most `rows`. They are read in ascending order, which is
            several times faster from a memory-mapped file; a batch's order within a step means nothing.
        rows: Rows of every step; missing ones are zeros with `PADDING_LABEL`.
        counts: Real samples of each step's global batch.
    """
    samples = np.zeros((len(steps), rows, *split.samples.shape[1:]), dtype=split.samples.dtype)
    labels = np.full((len(steps), rows), PADDING_LABEL, dtype=np.int64)
    for index, ids in enumerate(steps):
        ids = np.sort(ids)
        if len(ids) == rows:
            np.take(split.samples, ids, axis=0, out=samples[index], mode="clip")
        else:
            samples[index, : len(ids)] = split.samples[ids]
        labels[index, : len(ids)] = split.labels[ids]
    release_pages(split.samples)
    return Window(samples, labels, np.asarray(counts, dtype=np.int64))
