"""Layers over images, (channels, height, width)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.spec.initializers import Constant, Initializer, Uniform
from core.spec.layer import Layer, ParameterSpec, Shape

IMAGE_DIMS = 3


@dataclass(frozen=True)
class Conv2d(Layer):
    """Two-dimensional cross-correlation, as `torch.nn.Conv2d`.

    The weight is (out_channels, in_channels / groups, height, width).

    Attributes:
        initializer: Of the weight; None for the default of `torch.nn.Conv2d`, which the bias always has.
    """

    in_channels: int
    out_channels: int
    kernel_size: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    bias: bool = True
    initializer: Initializer | None = None

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(
            len(shape) == IMAGE_DIMS
            and shape[0] == self.in_channels
            and min(shape[1:]) + 2 * self.padding >= self.kernel_size,
            shape,
            f"({self.in_channels}, height, width) of at least {self.kernel_size - 2 * self.padding} a side",
        )
        height, width = ((size + 2 * self.padding - self.kernel_size) // self.stride + 1 for size in shape[1:])
        return (self.out_channels, height, width)

    def parameters(self) -> tuple[ParameterSpec, ...]:
        fan_in = self.in_channels // self.groups * self.kernel_size**2
        default = Uniform(1.0 / math.sqrt(fan_in))
        shape = (self.out_channels, self.in_channels // self.groups, self.kernel_size, self.kernel_size)
        weight = ParameterSpec(f"{self.name}.weight", shape, self.initializer or default)
        return (weight, ParameterSpec(f"{self.name}.bias", (self.out_channels,), default)) if self.bias else (weight,)

    def flops(self, shape: Shape) -> int:
        return 2 * math.prod(self.output_shape(shape)) * self.in_channels // self.groups * self.kernel_size**2


@dataclass(frozen=True)
class BatchNorm2d(Layer):
    """Each channel brought to mean 0 and variance 1 over the batch and the image, then scaled and shifted.

    In training the statistics are those of the batch, the variance divided by n; rows that are padding are left out.
    running_mean and running_var move towards them by `momentum`, the variance there divided by n - 1; evaluation uses
    the running ones. Over several cards that each see a part of the batch, `synchronized` takes the statistics over all
    parts; without it each card takes its own rows', and the running ones move towards the parts' mean, weighted by
    their rows. With gradient accumulation each part of the batch has its own.

    Source: `torch.nn.BatchNorm2d` (2.13), after Ioffe and Szegedy 2015, arXiv:1502.03167.
    """

    num_features: int
    synchronized: bool = True
    eps: float = 1e-5
    momentum: float = 0.1

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(
            len(shape) == IMAGE_DIMS and shape[0] == self.num_features, shape, f"({self.num_features}, height, width)"
        )
        return shape

    def parameters(self) -> tuple[ParameterSpec, ...]:
        return (
            ParameterSpec(f"{self.name}.weight", (self.num_features,), Constant(1.0)),
            ParameterSpec(f"{self.name}.bias", (self.num_features,), Constant(0.0)),
        )

    def buffers(self) -> tuple[ParameterSpec, ...]:
        return (
            ParameterSpec(f"{self.name}.running_mean", (self.num_features,), Constant(0.0)),
            ParameterSpec(f"{self.name}.running_var", (self.num_features,), Constant(1.0)),
        )


@dataclass(frozen=True)
class _Pool2d(Layer):
    """A window that moves over each channel."""

    kernel_size: int
    stride: int
    padding: int = 0

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(
            len(shape) == IMAGE_DIMS and min(shape[1:]) + 2 * self.padding >= self.kernel_size,
            shape,
            f"(channels, height, width) of at least {self.kernel_size - 2 * self.padding} a side",
        )
        height, width = ((size + 2 * self.padding - self.kernel_size) // self.stride + 1 for size in shape[1:])
        return (shape[0], height, width)


@dataclass(frozen=True)
class MaxPool2d(_Pool2d):
    """Maximum over windows, as `torch.nn.MaxPool2d`; padding never wins."""


@dataclass(frozen=True)
class AvgPool2d(_Pool2d):
    """Mean over windows, zeros of the padding counted, as `torch.nn.AvgPool2d`."""


@dataclass(frozen=True)
class GlobalAvgPool2d(Layer):
    """The mean over the whole image, (channels,)."""

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(len(shape) == IMAGE_DIMS, shape, "(channels, height, width)")
        return (shape[0],)
