"""Gathering the rows of a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from core.contracts import ArraySplit, Window
from core.contracts.engine import PADDING_ID, PADDING_LABEL
from core.data.mapped import release_pages

WINDOW_BYTES = 2 * 2**20  # of samples in one window; more costs memory, less costs Python time


def max_window_steps(split: ArraySplit, rows: int) -> int:
    """Returns how many steps of `rows` samples fit into one window; at least 1."""
    sample_bytes = split.samples.itemsize * int(np.prod(split.samples.shape[1:], dtype=np.int64))
    return max(1, WINDOW_BYTES // (rows * sample_bytes))


def stack_ids(pieces: Sequence[Sequence[npt.NDArray[np.int64]]], rows: int) -> npt.NDArray[np.int64]:
    """Returns the ids of every part of every step, int64 (num_steps, num_shards, rows), -1 where a part is short.

    Within a part they ascend, since arrays are read several times faster so from a memory-mapped file, and a batch's
    order within a step means nothing.
    """
    ids = np.full((len(pieces), len(pieces[0]), rows), PADDING_ID, dtype=np.int64)
    for step, parts in enumerate(pieces):
        for shard, part in enumerate(parts):
            ids[step, shard, : len(part)] = np.sort(part)
    return ids


def gather_window(
    split: ArraySplit, ids: npt.NDArray[np.int64], shards: range, counts: Sequence[int], epoch: int
) -> Window:
    """Returns one rank's window.

    Args:
        split: Where the samples lie.
        ids: Of every part, as `stack_ids` returns them; missing rows become zeros with `PADDING_LABEL`.
        shards: Which parts it has, one after the other in the rows.
        counts: Real samples of each step's global batch.
        epoch: From 0.
    """
    num_steps, _, rows = ids.shape
    # np.take would copy the whole array first where its rows do not lie one after the other.
    can_take = split.samples.flags.c_contiguous
    samples = np.zeros((num_steps, len(shards), rows, *split.samples.shape[1:]), dtype=split.samples.dtype)
    labels = np.full((num_steps, len(shards), rows), PADDING_LABEL, dtype=np.int64)
    for step in range(num_steps):
        for place, shard in enumerate(shards):
            mine = ids[step, shard]
            real = mine[mine != PADDING_ID]
            if can_take and len(real) == rows:
                np.take(split.samples, real, axis=0, out=samples[step, place], mode="clip")
            else:
                samples[step, place, : len(real)] = split.samples[real]
            labels[step, place, : len(real)] = split.labels[real]
    release_pages(split.samples)
    together = (num_steps, len(shards) * rows)
    samples, labels = samples.reshape(*together, *samples.shape[3:]), labels.reshape(together)
    return Window(samples, labels, np.asarray(counts, dtype=np.int64), ids, epoch)
