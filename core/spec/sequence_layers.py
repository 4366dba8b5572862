"""Layers over sequences: token ids of shape (length,), features of shape (length, features)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from core.spec.initializers import Initializer
from core.spec.layer import Layer, ParameterSpec, Shape

PADDING_TOKEN = 0


@dataclass(frozen=True)
class Embedding(Layer):
    """Row i of the weight, (num_embeddings, features), for token id i, as `torch.nn.Embedding`."""

    num_embeddings: int
    features: int
    initializer: Initializer

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(len(shape) == 1, shape, "(length,) of token ids")
        return (*shape, self.features)

    def parameters(self) -> tuple[ParameterSpec, ...]:
        shape = (self.num_embeddings, self.features)
        return (ParameterSpec(f"{self.name}.weight", shape, self.initializer),)


@dataclass(frozen=True)
class AddPositions(Layer):
    """x + row p of the weight, (num_positions, features), at position p: learnt positions."""

    num_positions: int
    features: int
    initializer: Initializer

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(
            len(shape) == 2 and shape[0] <= self.num_positions and shape[1] == self.features,
            shape,
            f"(length of at most {self.num_positions}, {self.features})",
        )
        return shape

    def parameters(self) -> tuple[ParameterSpec, ...]:
        return (ParameterSpec(f"{self.name}.weight", (self.num_positions, self.features), self.initializer),)


@dataclass(frozen=True)
class AddSegment(Layer):
    """x + row 0 of the weight, (num_segments, features): the token types of a text that is one segment."""

    num_segments: int
    features: int
    initializer: Initializer

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(shape[1:] == (self.features,), shape, f"(length, {self.features})")
        return shape

    def parameters(self) -> tuple[ParameterSpec, ...]:
        return (ParameterSpec(f"{self.name}.weight", (self.num_segments, self.features), self.initializer),)


@dataclass(frozen=True)
class Attention(Layer):
    """Scaled dot-product attention of several heads: softmax(q k^T / sqrt(d)) v for each head of d features.

    Inputs are queries, keys and values, each (length, features), head after head in the last dim, and the token ids:
    nothing attends to a place that holds `PADDING_TOKEN`. Dropout, as the layer of that name does it, falls on the
    probabilities, (heads, length, length). Heads are whole where the features are cut over cards.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.
    """

    num_inputs: ClassVar[int] = 4
    works_on_parts: ClassVar[bool] = True

    num_heads: int
    dropout: float = 0.0

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(
            len(shape) == 2 and shape[1] % self.num_heads == 0 and others == (shape, shape, shape[:1]),
            (shape, *others),
            f"queries, keys and values of (length, a multiple of {self.num_heads}), and token ids of (length,)",
        )
        return shape

    def flops(self, shape: Shape) -> int:
        return 2 * 2 * shape[0] * math.prod(shape)


@dataclass(frozen=True)
class FirstToken(Layer):
    """The features of the first place, (features,)."""

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(len(shape) == 2, shape, "(length, features)")
        return shape[1:]
