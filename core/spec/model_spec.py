"""A model: a sample's shape and the layers it runs through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from core.errors import SpecError
from core.spec.layers import Layer, ParameterSpec, Shape
from core.spec.sample_spec import SampleSpec


@dataclass(frozen=True)
class BoundLayer:
    """A layer together with the shapes it meets in its model (without the batch dim)."""

    layer: Layer
    input_shape: Shape
    output_shape: Shape

    @property
    def flops(self) -> int:
        return self.layer.flops(self.input_shape)


@dataclass(frozen=True)
class ModelSpec:
    """A network that classifies samples, as data.

    Attributes:
        name: The model's name in the catalogue.
        sample: What one input is.
        layers: Applied one after the other; the last gives one logit a class.

    Raises:
        SpecError: Two layers share a name, a layer does not fit its input, or the output is not (num_classes,).
    """

    name: str
    sample: SampleSpec
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        names = [layer.name for layer in self.layers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SpecError(f"Model '{self.name}' has two layers of one name.", received=", ".join(twice))
        shape = self.bound[-1].output_shape if self.layers else self.sample.shape
        if shape != (self.sample.num_classes,):
            raise SpecError(
                f"Model '{self.name}' does not end in one logit a class.",
                received=shape,
                allowed=(self.sample.num_classes,),
            )

    @cached_property
    def bound(self) -> tuple[BoundLayer, ...]:
        """The layers with the shapes they meet."""
        return tuple(self._bind())

    def _bind(self) -> Iterator[BoundLayer]:
        shape = self.sample.shape
        for layer in self.layers:
            after = layer.output_shape(shape)
            yield BoundLayer(layer, shape, after)
            shape = after

    @cached_property
    def parameters(self) -> tuple[ParameterSpec, ...]:
        """Every parameter, in the order of the layers."""
        return tuple(parameter for layer in self.layers for parameter in layer.parameters())

    @property
    def num_parameters(self) -> int:
        return sum(parameter.num_elements for parameter in self.parameters)

    @property
    def flops(self) -> int:
        """Floating-point operations of one forward pass for one sample."""
        return sum(bound.flops for bound in self.bound)
