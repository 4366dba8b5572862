"""The update rules, written down once.

Frameworks define Adam and SGD a little differently, so the rule is part of the contract: a backend's engine must
compute exactly what `update` below computes, up to floating-point reassociation. All arithmetic is float32 in a
backend and float64 here. g is the gradient of the mean loss over the global batch, t counts updates from 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from core.errors import ConfigError

Array = npt.NDArray[Any]


@dataclass(kw_only=True)
class Optimizer(ABC):
    """An update rule and its settings.

    Attributes:
        name: What the config calls it.
        slots: Names of the tensors that it keeps for each parameter, zero at the start; checkpoints store them as
            `<slot>.<parameter>`.
    """

    name: ClassVar[str]
    slots: ClassVar[tuple[str, ...]]

    lr: float = 1e-3  # learning rate, per update
    weight_decay: float = 0.0  # 1 / update (adam, sgd: added to the gradient; adamw: decoupled)

    def __post_init__(self) -> None:
        self._check("lr", self.lr, self.lr >= 0, "a number of at least 0")
        self._check("weight_decay", self.weight_decay, self.weight_decay >= 0, "a number of at least 0")

    def _check(self, key: str, value: object, fits: bool, allowed: str) -> None:
        if not fits:
            raise ConfigError(f"'optimizer.{key}' is out of range.", received=value, allowed=allowed)

    @abstractmethod
    def update(self, parameter: Array, gradient: Array, slots: dict[str, Array], step: int, lr: float) -> None:
        """Does update number `step` (from 1) in place; the definition that backends are held to."""


@dataclass(kw_only=True)
class Adam(Optimizer):
    """Adam, weight decay as an L2 term of the gradient.

    g <- g + weight_decay p;  m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;
    p <- p - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps)

    Source: `torch.optim.Adam` (2.13), after Kingma and Ba 2015, algorithm 1.
    """

    name: ClassVar[str] = "adam"
    slots: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")

    beta1: float = 0.9  # decay of the first moment, per update
    beta2: float = 0.999  # decay of the second moment, per update
    eps: float = 1e-8  # added to the root of the corrected second moment

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("beta1", "beta2"):
            self._check(key, getattr(self, key), 0 <= getattr(self, key) < 1, "a number in [0, 1)")
        self._check("eps", self.eps, self.eps > 0, "a number above 0")

    def update(self, parameter: Array, gradient: Array, slots: dict[str, Array], step: int, lr: float) -> None:
        self._moments(parameter, gradient + self.weight_decay * parameter, slots, step, lr)

    def _moments(self, parameter: Array, gradient: Array, slots: dict[str, Array], step: int, lr: float) -> None:
        m, v = slots["exp_avg"], slots["exp_avg_sq"]
        m += (1 - self.beta1) * (gradient - m)
        v += (1 - self.beta2) * (gradient * gradient - v)
        denominator = np.sqrt(v) / math.sqrt(1 - self.beta2**step) + self.eps
        parameter -= lr / (1 - self.beta1**step) * m / denominator


@dataclass(kw_only=True)
class AdamW(Adam):
    """Adam with decoupled weight decay: p <- p - lr weight_decay p comes before Adam's step without decay.

    Source: `torch.optim.AdamW` (2.13), after Loshchilov and Hutter 2019, algorithm 2.
    """

    name: ClassVar[str] = "adamw"

    weight_decay: float = 0.01  # torch.optim.AdamW's default

    def update(self, parameter: Array, gradient: Array, slots: dict[str, Array], step: int, lr: float) -> None:
        parameter *= 1 - lr * self.weight_decay
        self._moments(parameter, gradient, slots, step, lr)


@dataclass(kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    g <- g + weight_decay p;  b <- momentum b + g (b = g at the first update, which is the same from zero);
    p <- p - lr (g + momentum b if nesterov else b)

    Source: `torch.optim.SGD` (2.13) with dampening 0.
    """

    name: ClassVar[str] = "sgd"
    slots: ClassVar[tuple[str, ...]] = ("momentum_buffer",)

    lr: float = 0.01
    momentum: float = 0.9  # decay of the buffer, per update
    nesterov: bool = False  # look ahead along the buffer

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("momentum", self.momentum, 0 <= self.momentum < 1, "a number in [0, 1)")
        self._check("nesterov", self.nesterov, not self.nesterov or self.momentum > 0, "false when momentum is 0")

    def update(self, parameter: Array, gradient: Array, slots: dict[str, Array], step: int, lr: float) -> None:
        gradient = gradient + self.weight_decay * parameter
        buffer = slots["momentum_buffer"]
        buffer *= self.momentum
        buffer += gradient
        parameter -= lr * (gradient + self.momentum * buffer if self.nesterov else buffer)
