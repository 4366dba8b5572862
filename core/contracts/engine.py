"""The contract of an engine: what a backend builds on one rank to run the steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from core.contracts.step import LossScale
from core.spec import ModelSpec, initial_tensors

PADDING_LABEL = -1
PADDING_ID = -1


@dataclass(frozen=True)
class Window:
    """Consecutive batches of one rank, ready as arrays.

    Attributes:
        samples: (num_steps, local batch, *stored shape), as the data set stores them; its parts in order.
        labels: (num_steps, local batch), int64; `PADDING_LABEL` marks a row that is there only to fill the batch and
            counts for nothing.
        global_counts: (num_steps,), int64: real samples in the global batch of each step, by which its loss is divided.
        ids: (num_steps, num_parts, rows), int64: the samples of the whole global batch, `PADDING_ID` where there is
            none. It has one part a card along the batch's axes, or `StepSpec.shards`, of which each card then has
            several in a row. Random choices follow from them.
        epoch: From 0; of no meaning in evaluation.
    """

    samples: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    global_counts: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int64]
    epoch: int = 0

    @property
    def num_steps(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class WindowResult:
    """What the steps of a window gave, the same on every rank.

    Attributes:
        losses: (num_steps,), float64: mean loss over each step's global batch, before its update.
        correct: (num_steps,), int64: samples of the global batch whose largest logit was the label's.
        skipped: Steps whose update was skipped since a gradient was not finite: under amp_fp16, or when asked to skip.
    """

    losses: npt.NDArray[np.float64]
    correct: npt.NDArray[np.int64]
    skipped: int = 0


@dataclass(frozen=True)
class EvaluationTotals:
    """Sums over evaluated samples, the same on every rank, each sample counted once."""

    loss_sum: float
    correct: int
    count: int


@dataclass
class TrainingState:
    """Everything that training changes, as full host tensors under canonical names.

    Attributes:
        parameters: Full parameters, float32.
        slots: The optimizer's tensors by slot and parameter, float32.
        num_updates: Updates done so far (the optimizer's t).
        buffers: Tensors that training changes without a gradient (running statistics), in their own formats.
        loss_scale: The loss scale under amp_fp16; None under other precisions.
    """

    parameters: dict[str, npt.NDArray[np.float32]]
    slots: dict[str, dict[str, npt.NDArray[np.float32]]] = field(default_factory=dict)
    num_updates: int = 0
    buffers: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    loss_scale: LossScale | None = None

    @classmethod
    def initial(cls, spec: ModelSpec, seed: int) -> TrainingState:
        """Returns the state before the first update; it follows from spec and seed alone."""
        return cls(initial_tensors(spec.parameters, seed), buffers=initial_tensors(spec.buffers, seed))


class Engine(ABC):
    """The model, the step and the optimizer on one rank.

    System rules: one engine a process, driven by one thread. Every method but `local_tensors`, `traffic` and `close` is
    collective: all ranks call it, in the same order and with windows of the same number of steps and rows. Windows are
    only read, never changed or kept.
    """

    @abstractmethod
    def load(self, state: TrainingState) -> None:
        """Takes this rank's part of full tensors.

        Missing slots start at zero, the slot of the weights' average at the weights; a missing loss scale starts anew.
        """

    @abstractmethod
    def gather(self) -> TrainingState:
        """Returns the full tensors on rank 0; the other ranks may return empty ones."""

    @abstractmethod
    def train(self, window: Window, lr: npt.NDArray[np.float64]) -> WindowResult:
        """Does one update a step, with the learning rates of shape (num_steps,)."""

    @abstractmethod
    def evaluate(self, window: Window) -> EvaluationTotals:
        """Runs the model over a window without training."""

    @abstractmethod
    def local_tensors(self) -> Mapping[str, tuple[int, ...]]:
        """Returns the shapes of the parameters that live on this rank, read from the live tensors."""

    @abstractmethod
    def traffic(self) -> Mapping[tuple[str, int], int]:
        """Returns payload bytes carried by the steps so far, by (collective, group size)."""

    @abstractmethod
    def close(self) -> None:
        """Frees the device."""
