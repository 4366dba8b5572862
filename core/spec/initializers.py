"""Initial values of parameters, drawn by the core so that every backend starts from the same weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from core.randomness import uniform

if TYPE_CHECKING:
    from core.spec.layer import ParameterSpec


class Initializer(ABC):
    """How one parameter's first values are made."""

    @abstractmethod
    def draw(self, seed: int, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Returns the values, float32 of `shape`; they depend on seed, name and shape alone."""


@dataclass(frozen=True)
class Uniform(Initializer):
    """Uniform on [-bound, bound).

    With bound = 1/sqrt(fan_in) this is the default of `torch.nn.Conv2d` and `torch.nn.Linear` (2.13), whose
    kaiming_uniform with a=sqrt(5) comes to the same.
    """

    bound: float

    def draw(self, seed: int, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        count = int(np.prod(shape, dtype=np.int64))
        values = uniform(seed, "init", name, count=count)
        return ((2.0 * values - 1.0) * self.bound).astype(np.float32).reshape(shape)


@dataclass(frozen=True)
class Normal(Initializer):
    """Normal with mean 0 and standard deviation `std`.

    Source: Box and Muller 1958, on pairs of uniform numbers.
    """

    std: float

    def draw(self, seed: int, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        count = int(np.prod(shape, dtype=np.int64))
        half = -(-count // 2)
        values = uniform(seed, "init", name, count=2 * half)
        radius = np.sqrt(-2.0 * np.log1p(-values[:half]))
        angle = 2.0 * np.pi * values[half:]
        both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
        return (both * self.std).astype(np.float32).reshape(shape)


@dataclass(frozen=True)
class Constant(Initializer):
    """Every element has the same value."""

    value: float

    def draw(self, seed: int, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        return np.full(shape, self.value, dtype=np.float32)


@dataclass(frozen=True)
class Stored(Initializer):
    """Values that a framework has made before, read from a safetensors file; they do not depend on the seed given here.

    Attributes:
        path: The file, which holds a tensor of the drawn name and shape.
    """

    path: Path

    def draw(self, seed: int, name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        with safe_open(self.path, framework="np") as file:
            values: npt.NDArray[Any] = file.get_tensor(name)
        assert values.shape == shape, (name, values.shape, shape)
        return values


def initial_tensors(specs: Iterable[ParameterSpec], seed: int) -> dict[str, npt.NDArray[Any]]:
    """Returns the full initial tensor of each spec under its canonical name, in the spec's format."""
    return {spec.name: spec.initializer.draw(seed, spec.name, spec.shape) for spec in specs}
