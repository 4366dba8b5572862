"""The layers that a model spec is made of.

A layer is a frozen dataclass: a name and sizes. Parameter names and shapes are those of `torch.nn` (2.13): `weight` of
a convolution is (out_channels, in_channels / groups, height, width), `weight` of a linear layer is
(out_features, in_features). Shapes here leave out the batch dim.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from core.errors import SpecError
from core.spec.initializers import Initializer, Uniform

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ParameterSpec:
    """One trainable tensor: canonical name, full shape, and how its first values are drawn."""

    name: str
    shape: Shape
    initializer: Initializer

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layer(ABC):
    """One layer of a model spec.

    Attributes:
        name: Prefix of the layer's parameter names, unique in the model.
    """

    name: str

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """Returns the output's shape for an input of `shape`.

        Raises:
            SpecError: The input does not fit the layer.
        """

    def parameters(self) -> tuple[ParameterSpec, ...]:
        """Returns the layer's parameters in a fixed order; none unless overridden."""
        return ()

    def flops(self, shape: Shape) -> int:
        """Returns floating-point operations of one forward pass for one sample: 2 for a multiply and add."""
        return 0

    def _require(self, fits: bool, received: Shape, allowed: str) -> None:
        if not fits:
            raise SpecError(
                f"Layer '{self.name}' ({type(self).__name__}) does not fit its input.",
                received=received,
                allowed=allowed,
                remedy="Change the layer before it, or the data's shape (data.resize for images).",
            )


@dataclass(frozen=True)
class Conv2d(Layer):
    """Two-dimensional cross-correlation over (channels, height, width), as `torch.nn.Conv2d`."""

    in_channels: int
    out_channels: int
    kernel_size: int
    stride: int = 1
    padding: int = 0

    def output_shape(self, shape: Shape) -> Shape:
        self._require(
            len(shape) == 3 and shape[0] == self.in_channels and min(shape[1:]) + 2 * self.padding >= self.kernel_size,
            shape,
            f"({self.in_channels}, height, width) of at least {self.kernel_size - 2 * self.padding} a side",
        )
        height, width = ((size + 2 * self.padding - self.kernel_size) // self.stride + 1 for size in shape[1:])
        return (self.out_channels, height, width)

    def parameters(self) -> tuple[ParameterSpec, ...]:
        bound = Uniform(1.0 / math.sqrt(self.in_channels * self.kernel_size**2))
        weight = (self.out_channels, self.in_channels, self.kernel_size, self.kernel_size)
        return (
            ParameterSpec(f"{self.name}.weight", weight, bound),
            ParameterSpec(f"{self.name}.bias", (self.out_channels,), bound),
        )

    def flops(self, shape: Shape) -> int:
        return 2 * math.prod(self.output_shape(shape)) * self.in_channels * self.kernel_size**2


@dataclass(frozen=True)
class Linear(Layer):
    """y = x W^T + b on the last dim, as `torch.nn.Linear`."""

    in_features: int
    out_features: int

    def output_shape(self, shape: Shape) -> Shape:
        self._require(bool(shape) and shape[-1] == self.in_features, shape, f"(..., {self.in_features})")
        return (*shape[:-1], self.out_features)

    def parameters(self) -> tuple[ParameterSpec, ...]:
        bound = Uniform(1.0 / math.sqrt(self.in_features))
        return (
            ParameterSpec(f"{self.name}.weight", (self.out_features, self.in_features), bound),
            ParameterSpec(f"{self.name}.bias", (self.out_features,), bound),
        )

    def flops(self, shape: Shape) -> int:
        return 2 * math.prod(self.output_shape(shape)) * self.in_features


@dataclass(frozen=True)
class MaxPool2d(Layer):
    """Maximum over windows of (channels, height, width), as `torch.nn.MaxPool2d` without padding."""

    kernel_size: int
    stride: int

    def output_shape(self, shape: Shape) -> Shape:
        self._require(
            len(shape) == 3 and min(shape[1:]) >= self.kernel_size,
            shape,
            f"(channels, height, width) of at least {self.kernel_size} a side",
        )
        height, width = ((size - self.kernel_size) // self.stride + 1 for size in shape[1:])
        return (shape[0], height, width)


@dataclass(frozen=True)
class ReLU(Layer):
    """max(x, 0), element by element; the gradient at 0 is 0."""

    def output_shape(self, shape: Shape) -> Shape:
        return shape


@dataclass(frozen=True)
class Flatten(Layer):
    """All dims but the batch's in one, channels slowest, as `torch.nn.Flatten`."""

    def output_shape(self, shape: Shape) -> Shape:
        return (math.prod(shape),)
