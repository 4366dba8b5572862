"""What every layer of a model spec is.

A layer is a frozen dataclass: a name, sizes, and the names of the layers whose outputs it takes. Parameter names and
shapes are those of `torch.nn` (2.13). Shapes leave out the batch dim.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from core.errors import SpecError
from core.spec.initializers import Initializer

Shape = tuple[int, ...]

# The name by which a layer takes the samples themselves.
INPUT = "input"


@dataclass(frozen=True)
class ParameterSpec:
    """One tensor of a model: canonical name, full shape, and how its first values are made.

    Attributes:
        name: Unique in the model.
        shape: Of the whole tensor.
        initializer: Makes its first values.
        dtype: NumPy's name of its numbers' format; float32 for all that is trained.
    """

    name: str
    shape: Shape
    initializer: Initializer
    dtype: str = "float32"

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.num_elements * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Layer(ABC):
    """One layer of a model spec.

    Attributes:
        name: Prefix of the layer's parameter names, but for `Native`; unique in the model.
        inputs: Names of the earlier layers whose outputs it takes, in order; none stands for the layer before it.
            `INPUT` names the samples.
        num_inputs: How many it takes.
        works_on_parts: Whether it computes each part of its output's last dim from the same part of its inputs', so
            that it runs as it is where these are cut over cards.
    """

    num_inputs: ClassVar[int] = 1
    works_on_parts: ClassVar[bool] = False

    name: str
    inputs: tuple[str, ...] = field(default=(), kw_only=True)

    @abstractmethod
    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        """Returns the output's shape for inputs of the given shapes.

        Raises:
            SpecError: The inputs do not fit the layer.
        """

    def parameters(self) -> tuple[ParameterSpec, ...]:
        """Returns the layer's trainable tensors in a fixed order, the weight first; none unless overridden."""
        return ()

    def buffers(self) -> tuple[ParameterSpec, ...]:
        """Returns the tensors that training changes without a gradient; none unless overridden."""
        return ()

    def flops(self, shape: Shape) -> int:
        """Returns floating-point operations of one forward pass for one sample: 2 for a multiply and add."""
        return 0

    def _require(self, fits: bool, received: object, allowed: str) -> None:
        if not fits:
            raise SpecError(
                f"Layer '{self.name}' ({type(self).__name__}) does not fit its input.",
                received=received,
                allowed=allowed,
                remedy="Change the layer before it, or the data's shape (data.resize for images).",
            )
