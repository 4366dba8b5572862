"""Layers that compute each element of the output from the same element of their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from core.spec.layer import Layer, Shape


@dataclass(frozen=True)
class Pointwise(Layer):
    """A layer that changes no shape."""

    works_on_parts: ClassVar[bool] = True

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        return shape


@dataclass(frozen=True)
class ReLU(Pointwise):
    """max(x, 0); the gradient at 0 is 0."""


@dataclass(frozen=True)
class ReLU6(Pointwise):
    """min(max(x, 0), 6); the gradient at 0 and 6 is 0."""


@dataclass(frozen=True)
class GELU(Pointwise):
    """x P(X <= x) with a standard normal X, by the error function.

    Source: Hendrycks and Gimpel 2016, arXiv:1606.08415; `torch.nn.GELU(approximate="none")`, 2.13.
    """


@dataclass(frozen=True)
class Tanh(Pointwise):
    """The hyperbolic tangent."""


@dataclass(frozen=True)
class Dropout(Pointwise):
    """In training elements are zero with `probability`, the others divided by 1 - probability.

    Which ones follows from seed, layer, epoch, sample and element (`core.randomness.keep_mask`): the same on any number
    of cards, under any layout and on any backend.

    Source: Srivastava et al. 2014, JMLR 15; `torch.nn.Dropout`, 2.13.
    """

    probability: float

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(0 <= self.probability < 1, f"probability {self.probability}", "a probability in [0, 1)")
        return shape


@dataclass(frozen=True)
class Add(Pointwise):
    """The sum of two inputs of one shape: the end of a residual block."""

    num_inputs: ClassVar[int] = 2
    works_on_parts: ClassVar[bool] = False  # its inputs meet where the batch lies

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(others == (shape,), (shape, *others), "two inputs of one shape")
        return shape
