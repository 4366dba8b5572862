"""A model: a sample's shape and the layers it runs through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from core.errors import SpecError
from core.spec.layer import INPUT, Layer, ParameterSpec, Shape
from core.spec.sample_spec import SampleSpec


@dataclass(frozen=True)
class BoundLayer:
    """A layer together with what it meets in its model (shapes without the batch dim).

    Attributes:
        layer: The layer.
        inputs: Names of the layers whose outputs it takes, `INPUT` for the samples.
        input_shapes: One each.
        output_shape: Of its output.
    """

    layer: Layer
    inputs: tuple[str, ...]
    input_shapes: tuple[Shape, ...]
    output_shape: Shape

    @property
    def flops(self) -> int:
        return self.layer.flops(self.input_shapes[0])


@dataclass(frozen=True)
class ModelSpec:
    """A network that classifies samples, as data.

    Attributes:
        name: The model's name in the catalogue.
        sample: What one input is.
        layers: In an order in which each follows those whose outputs it takes; the last gives one logit a class.
        head: Name of the layer that belongs to the classes alone, which published weights may lack; "" for none.

    Raises:
        SpecError: Two layers share a name, a layer takes what does not come before it or does not fit its input, or the
            output is not (num_classes,).
    """

    name: str
    sample: SampleSpec
    layers: tuple[Layer, ...]
    head: str = ""

    def __post_init__(self) -> None:
        names = [INPUT, *(layer.name for layer in self.layers)]
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
        """The layers with what they meet."""
        return tuple(self._bind())

    def _bind(self) -> Iterator[BoundLayer]:
        shapes: dict[str, Shape] = {INPUT: self.sample.shape}
        before = INPUT
        for layer in self.layers:
            inputs = layer.inputs or (before,)
            unknown = [name for name in inputs if name not in shapes]
            if unknown or len(inputs) != layer.num_inputs:
                raise SpecError(
                    f"Layer '{layer.name}' ({type(layer).__name__}) takes {layer.num_inputs} outputs of layers before "
                    "it.",
                    received=", ".join(inputs) + (f" (not before it: {', '.join(unknown)})" if unknown else ""),
                )
            input_shapes = tuple(shapes[name] for name in inputs)
            shapes[layer.name] = layer.output_shape(*input_shapes)
            yield BoundLayer(layer, inputs, input_shapes, shapes[layer.name])
            before = layer.name

    @cached_property
    def consumers(self) -> Mapping[str, tuple[BoundLayer, ...]]:
        """For each layer's name, and `INPUT`, the layers that take its output, in order."""
        found: dict[str, list[BoundLayer]] = {INPUT: [], **{layer.name: [] for layer in self.layers}}
        for bound in self.bound:
            for name in dict.fromkeys(bound.inputs):
                found[name].append(bound)
        return {name: tuple(layers) for name, layers in found.items()}

    @cached_property
    def parameters(self) -> tuple[ParameterSpec, ...]:
        """Every parameter, in the order of the layers."""
        return tuple(parameter for layer in self.layers for parameter in layer.parameters())

    @cached_property
    def buffers(self) -> tuple[ParameterSpec, ...]:
        """Every tensor that training changes without a gradient, in the order of the layers."""
        return tuple(buffer for layer in self.layers for buffer in layer.buffers())

    @property
    def num_parameters(self) -> int:
        return sum(parameter.num_elements for parameter in self.parameters)

    @property
    def flops(self) -> int:
        """Floating-point operations of one forward pass for one sample."""
        return sum(bound.flops for bound in self.bound)
