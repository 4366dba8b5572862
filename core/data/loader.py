"""Windows of training batches, the next one prepared while the engine computes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from core.contracts import ArraySplit, Window
from core.data.batches import BatchPlan, epoch_order
from core.data.windows import gather_window, max_window_steps, stack_ids

Span = tuple[int, int, int]  # epoch, first step within it, number of steps


class Loader:
    """One rank's part of each global batch.

    Any position is reached at once: a batch follows from seed, epoch and step alone.

    Args:
        split: The training arrays.
        plan: How they are cut.
        shards: The parts that this rank has, one or several in a row.
        seed: The run's seed.
    """

    def __init__(self, split: ArraySplit, plan: BatchPlan, shards: range, seed: int) -> None:
        self._split = split
        self._plan = plan
        self._shards = shards
        self._seed = seed
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None

    @property
    def max_window_steps(self) -> int:
        """The most steps of one window."""
        return max_window_steps(self._split, self._plan.local_batch * len(self._shards))

    def window(self, epoch: int, first: int, num_steps: int) -> Window:
        """Returns `num_steps` batches of an epoch from step `first` on."""
        order = self._order_of(epoch)
        steps = range(first, first + num_steps)
        shards = range(self._plan.num_shards)
        pieces = [[order[self._plan.piece(step, shard)] for shard in shards] for step in steps]
        counts = [self._plan.count(step) for step in steps]
        return gather_window(self._split, stack_ids(pieces, self._plan.local_batch), self._shards, counts, epoch)

    def windows(self, spans: Iterator[Span]) -> Generator[Window, None, None]:
        """Yields the windows of `spans`, each prepared by a thread while the one before it is in use.

        `spans` is advanced on the caller's thread, one window ahead: the second span is asked for before the first
        window is yielded. The thread ends with the generator, however that ends.
        """
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="anycard-loader") as pool:
            ahead = self._submit(pool, spans)
            while ahead is not None:
                window = ahead.result()
                ahead = self._submit(pool, spans)
                yield window

    def _submit(self, pool: ThreadPoolExecutor, spans: Iterator[Span]) -> Future[Window] | None:
        span = next(spans, None)
        return None if span is None else pool.submit(self.window, *span)

    def _order_of(self, epoch: int) -> npt.NDArray[np.int64]:
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, epoch_order(self._seed, epoch, self._plan.num_samples))
        return self._order[1]
