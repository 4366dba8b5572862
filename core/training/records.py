"""What a run has seen so far, exact across a stop and a resume."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
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
        count: Samples seen in steps with a finite loss.
        seconds: Time spent in training windows.
    """

    loss_sum: float = 0.0
    correct: int = 0
    count: int = 0
    seconds: float = 0.0

    def entry(self, epoch: int) -> dict[str, Any]:
        """Returns the epoch's entry of the summary, its evaluation still open; epochs count from 1 there."""
        return {
            "epoch": epoch + 1,
            "train_loss": self.loss_sum / self.count if self.count else None,
            "train_accuracy": self.correct / self.count if self.count else None,
            "train_samples_per_s": self.count / self.seconds if self.seconds else None,
            "eval_loss": None,
            "eval_accuracy": None,
        }


@dataclass
class Records:
    """The numbers of a run.

    Attributes:
        epochs: Entries of the epochs that are over.
        sums: The current epoch.
        best: The best evaluation accuracy, None before the first evaluation.
        evaluation: The last evaluation: step, eval_loss, eval_accuracy; empty before the first.
        last_loss: The last finite loss of a step.
        without_better: Evaluations since the best one.
        skipped: Updates that were skipped.
        seconds: Time that earlier lives of the run took.
    """

    epochs: list[dict[str, Any]] = field(default_factory=list)
    sums: EpochSums = field(default_factory=EpochSums)
    best: float | None = None
    evaluation: dict[str, Any] = field(default_factory=dict)
    last_loss: float | None = None
    without_better: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def add(self, result: WindowResult, counts: npt.NDArray[np.int64], seconds: float) -> None:
        """Adds a window; steps whose loss is not finite count for nothing."""
        finite = np.isfinite(result.losses)
        self.sums.loss_sum += float(np.dot(result.losses[finite], counts[finite]))
        self.sums.correct += int(result.correct[finite].sum())
        self.sums.count += int(counts[finite].sum())
        self.sums.seconds += seconds
        self.skipped += result.skipped
        if finite.any():
            self.last_loss = float(result.losses[finite][-1])

    def end_epoch(self, epoch: int) -> None:
        """Closes the current epoch."""
        self.epochs.append(self.sums.entry(epoch))
        self.sums = EpochSums()

    def evaluated(self, step: int, epoch: int, numbers: Mapping[str, float]) -> bool:
        """Takes an evaluation and returns whether it is the best so far."""
        self.evaluation = {"step": step, **numbers}
        if self.epochs and self.epochs[-1]["epoch"] == epoch + 1:
            self.epochs[-1].update(numbers)
        is_best = self.best is None or numbers["eval_accuracy"] > self.best
        self.without_better = 0 if is_best else self.without_better + 1
        if is_best:
            self.best = numbers["eval_accuracy"]
        return is_best

    @property
    def train_loss(self) -> float | None:
        """The last whole epoch's mean loss, before its end the last step's."""
        return self.epochs[-1]["train_loss"] if self.epochs else self.last_loss

    @property
    def samples_per_s(self) -> float | None:
        """The median over whole epochs, before the first one's end the rate so far."""
        entries = self.epochs or [self.sums.entry(0)]
        rates = [entry["train_samples_per_s"] for entry in entries if entry["train_samples_per_s"]]
        return float(np.median(rates)) if rates else None

    def to_json(self, seconds: float) -> dict[str, Any]:
        """Returns the records for a checkpoint, with the time that the run has taken so far."""
        return {**dataclasses.asdict(self), "seconds": seconds}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Records:
        """Returns the records that a checkpoint holds; empty values give empty records."""
        return cls(**{**values, "sums": EpochSums(**values.get("sums", {}))})
