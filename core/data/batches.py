"""Which samples each step and each part of the batch gets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from core.errors import ConfigError
from core.randomness import permutation


class LastBatch(Enum):
    """What happens to an epoch's last batch when the samples do not fill it."""

    keep = "keep"  # it is padded to a whole one, and its loss is divided by its real samples
    drop = "drop"  # its samples are left out of this epoch


def epoch_order(seed: int, epoch: int, num_samples: int) -> npt.NDArray[np.int64]:
    """Returns the order of an epoch's samples, int64 of shape (num_samples,); the same on any number of cards."""
    return permutation(seed, "order", epoch, count=num_samples)


@dataclass(frozen=True)
class BatchPlan:
    """How an epoch is cut into global batches, and these into parts.

    Part k of n takes the k-th of n equal, contiguous pieces of each global batch. A short last batch is cut into pieces
    that differ by one sample at most.

    Attributes:
        num_samples: Samples in the training split.
        global_batch: Samples in one update.
        num_shards: Parts that a global batch is cut into.
        accumulate: Parts that a rank cuts its own batch into.
        last: What happens to a last short batch.

    Raises:
        ConfigError: The batch does not divide, or an epoch would have no step.
    """

    num_samples: int
    global_batch: int
    num_shards: int
    last: LastBatch
    accumulate: int = 1

    def __post_init__(self) -> None:
        parts = self.num_shards * self.accumulate
        if self.global_batch % parts:
            lower = self.global_batch // parts * parts
            raise ConfigError(
                f"'batch.global' does not divide into {parts} equal parts.",
                received=self.global_batch,
                allowed=f"a multiple of {parts}, such as {lower or parts} or {lower + parts}",
            )
        if not self.steps_per_epoch:
            raise ConfigError(
                f"{self.num_samples} training samples do not fill one global batch of {self.global_batch}, and "
                "batch.last=drop leaves them out.",
                remedy="Use a smaller batch.global or batch.per_card, or batch.last=keep.",
            )

    @property
    def steps_per_epoch(self) -> int:
        whole, rest = divmod(self.num_samples, self.global_batch)
        return whole + (1 if rest and self.last is LastBatch.keep else 0)

    @property
    def local_batch(self) -> int:
        """Rows of one part's batch, padding included."""
        return self.global_batch // self.num_shards

    def count(self, step: int) -> int:
        """Returns the real samples in the global batch of a step of an epoch."""
        return min(self.global_batch, self.num_samples - step * self.global_batch)

    def piece(self, step: int, shard: int) -> slice:
        """Returns which places of the epoch's order part `shard` takes at a step."""
        begin, count = step * self.global_batch, self.count(step)
        return slice(begin + count * shard // self.num_shards, begin + count * (shard + 1) // self.num_shards)
