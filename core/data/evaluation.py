"""Windows that hold each evaluation sample once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from core.contracts import ArraySplit, Window
from core.data.windows import gather_window, max_window_steps, stack_ids


def evaluation_windows(split: ArraySplit, shard: int, num_shards: int, batch: int) -> Iterator[Window]:
    """Yields the windows of part `shard` of `num_shards`.

    All parts together hold each sample once; all have the same number of windows, steps and rows, for which the last
    ones are padded.

    Args:
        split: The evaluation arrays.
        shard: Which part, in [0, num_shards).
        num_shards: How many parts there are.
        batch: Rows of one part's batch.
    """
    together = batch * num_shards
    num_steps = -(-len(split) // together)
    longest = max_window_steps(split, batch)
    for first in range(0, num_steps, longest):
        steps = range(first, min(first + longest, num_steps))
        pieces = [
            [_ids_from(step * together + part * batch, batch, len(split)) for part in range(num_shards)]
            for step in steps
        ]
        counts = [min(together, len(split) - step * together) for step in steps]
        yield gather_window(split, stack_ids(pieces, batch), range(shard, shard + 1), counts, epoch=0)


def _ids_from(begin: int, count: int, num_samples: int) -> npt.NDArray[np.int64]:
    return np.arange(min(begin, num_samples), min(begin + count, num_samples))
