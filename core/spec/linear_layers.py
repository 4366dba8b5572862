"""Layers over features, the last dim."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.spec.initializers import Constant, Initializer, Uniform
from core.spec.layer import Layer, ParameterSpec, Shape


@dataclass(frozen=True)
class Linear(Layer):
    """y = x W^T + b on the last dim, as `torch.nn.Linear`; the weight is (out_features, in_features).

    Attributes:
        initializer: Of the weight, with a bias of zeros; None for the default of `torch.nn.Linear` for both.
    """

    in_features: int
    out_features: int
    initializer: Initializer | None = None

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(bool(shape) and shape[-1] == self.in_features, shape, f"(..., {self.in_features})")
        return (*shape[:-1], self.out_features)

    def parameters(self) -> tuple[ParameterSpec, ...]:
        default = Uniform(1.0 / math.sqrt(self.in_features))
        weight, bias = (default, default) if self.initializer is None else (self.initializer, Constant(0.0))
        return (
            ParameterSpec(f"{self.name}.weight", (self.out_features, self.in_features), weight),
            ParameterSpec(f"{self.name}.bias", (self.out_features,), bias),
        )

    def flops(self, shape: Shape) -> int:
        return 2 * math.prod(self.output_shape(shape)) * self.in_features


@dataclass(frozen=True)
class LayerNorm(Layer):
    """The last dim brought to mean 0 and variance 1, then scaled and shifted, as `torch.nn.LayerNorm`.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.
    """

    num_features: int
    eps: float = 1e-5

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(bool(shape) and shape[-1] == self.num_features, shape, f"(..., {self.num_features})")
        return shape

    def parameters(self) -> tuple[ParameterSpec, ...]:
        return (
            ParameterSpec(f"{self.name}.weight", (self.num_features,), Constant(1.0)),
            ParameterSpec(f"{self.name}.bias", (self.num_features,), Constant(0.0)),
        )


@dataclass(frozen=True)
class Flatten(Layer):
    """All dims but the batch's in one, channels slowest, as `torch.nn.Flatten`."""

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        return (math.prod(shape),)
