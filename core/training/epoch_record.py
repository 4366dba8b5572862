"""Sums over the training steps of one epoch, exact across a stop and a resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from core.contracts import WindowResult


@dataclass
class EpochSums:
    """What the steps of the current epoch have added up to.

    Attributes:
        loss_sum: Sum of the losses of all samples.
        correct: Samples that were classified rightly before their step's update.
        count: Samples seen.
        seconds: Time spent in training windows.
    """

    loss_sum: float = 0.0
    correct: int = 0
    count: int = 0
    seconds: float = 0.0

    def add(self, result: WindowResult, counts: npt.NDArray[np.int64], seconds: float) -> None:
        """Adds a window."""
        self.loss_sum += float(np.dot(result.losses, counts))
        self.correct += int(result.correct.sum())
        self.count += int(counts.sum())
        self.seconds += seconds

    def record(self, epoch: int) -> dict[str, Any]:
        """Returns the epoch's entry of the summary, its evaluation still open; epochs count from 1 there."""
        return {
            "epoch": epoch + 1,
            "train_loss": self.loss_sum / self.count,
            "train_accuracy": self.correct / self.count,
            "train_samples_per_s": self.count / self.seconds if self.seconds else None,
            "eval_loss": None,
            "eval_accuracy": None,
        }

    def to_json(self) -> dict[str, Any]:
        """Returns the sums for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EpochSums:
        """Returns the sums that a checkpoint holds."""
        return cls(**values)
