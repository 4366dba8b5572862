"""How the learning rate goes over the steps of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from core.config.schema import require

Rates = npt.NDArray[np.float64]


@dataclass(kw_only=True)
class Schedule(ABC):
    """A factor on the optimizer's learning rate, by step; a warm-up comes before it.

    During the first `warmup_steps` updates the rate rises linearly: update i, from 0, has (i + 1) / warmup_steps of it.
    """

    name: ClassVar[str]

    warmup_steps: int = 0  # updates until the full learning rate

    def __post_init__(self) -> None:
        require(self.warmup_steps >= 0, "schedule.warmup_steps", self.warmup_steps, "at least 0")

    def rates(self, lr: float, first: int, num_steps: int, total: int) -> Rates:
        """Returns the learning rates of updates first .. first + num_steps - 1 of a run of `total`, float64."""
        steps = np.arange(first, first + num_steps, dtype=np.float64)
        after = np.maximum(steps - self.warmup_steps, 0.0)
        rates = lr * self.factors(after, max(1, total - self.warmup_steps))
        if self.warmup_steps:
            rates = np.where(steps < self.warmup_steps, lr * (steps + 1) / self.warmup_steps, rates)
        return rates

    @abstractmethod
    def factors(self, steps: Rates, total: int) -> Rates:
        """Returns the factors for steps after the warm-up, of which there are `total`."""


@dataclass(kw_only=True)
class Constant(Schedule):
    """The same rate throughout."""

    name: ClassVar[str] = "constant"

    def factors(self, steps: Rates, total: int) -> Rates:
        return np.ones_like(steps)


@dataclass(kw_only=True)
class Cosine(Schedule):
    """Half a cosine from 1 down to `floor`, over the whole run.

    Source: Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5, without restarts.
    """

    name: ClassVar[str] = "cosine"

    floor: float = 0.0  # part of the learning rate that is left at the end

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.floor <= 1, "schedule.floor", self.floor, "0 to 1")

    def factors(self, steps: Rates, total: int) -> Rates:
        return self.floor + (1 - self.floor) * 0.5 * (1 + np.cos(np.pi * np.minimum(steps / total, 1.0)))


@dataclass(kw_only=True)
class Step(Schedule):
    """A drop by `gamma` every `every_steps` updates."""

    name: ClassVar[str] = "step"

    every_steps: int = 1000  # updates between drops
    gamma: float = 0.1  # factor of each drop

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.every_steps >= 1, "schedule.every_steps", self.every_steps, "at least 1")
        require(0 < self.gamma <= 1, "schedule.gamma", self.gamma, "above 0, at most 1")

    def factors(self, steps: Rates, total: int) -> Rates:
        return np.asarray(self.gamma ** np.floor(steps / self.every_steps), dtype=np.float64)
