"""About how many bytes one card keeps from the forward to the backward pass.

Counted is what the gradients are computed from, where it lies on the card, in the format of products: the samples;
the outputs that the layer itself or a layer that takes them needs again (see `BY_INPUT` and `BY_OUTPUT`), after moving
where they are moved; dropout's masks; attention's probabilities. Under mixed precision also the 16-bit copies of the
weights of convolutions and linear layers. Views (`Flatten`, `FirstToken`) share what they view.

Left out are indices of max pooling, statistics, and what a pass needs but for a moment; a framework's kernels may keep
more (float32 copies beside 16-bit ones) or less (the CPU's fused small convolutions). Of a user's class (`Native`)
nothing is known. A card runs its rows in `accumulate` parts, and keeps those of one.
"""

from __future__ import annotations

import math

from core.contracts import Precision, StepSpec
from core.layout import Flow, LayerStep, Layout, Placement, Replicate
from core.spec import (
    GELU,
    INPUT,
    Attention,
    BatchNorm2d,
    Conv2d,
    Dropout,
    FirstToken,
    Flatten,
    Layer,
    LayerNorm,
    Linear,
    MaxPool2d,
    ModelSpec,
    Native,
    ReLU,
    ReLU6,
    Shape,
    Tanh,
)

VIEWS = (Flatten, FirstToken)
BY_INPUT = (Attention, BatchNorm2d, Conv2d, GELU, LayerNorm, Linear, MaxPool2d, ReLU6)  # need their inputs again
BY_OUTPUT = (ReLU, Tanh)  # need their output again
IN_PRODUCTS = (Conv2d, Linear)


def knows_activations(spec: ModelSpec) -> bool:
    """Returns whether it can be said what a model keeps: not of a user's class, which is known from outside alone."""
    return not any(isinstance(layer, Native) for layer in spec.layers)


def activation_bytes(spec: ModelSpec, layout: Layout, flow: Flow, step: StepSpec, global_batch: int) -> int:
    """Returns about how many bytes one card keeps for its part of a batch of `global_batch` samples."""
    kept = {INPUT: _part(spec.sample.shape, layout.batch, layout)}
    origin = {INPUT: INPUT}  # the output that a name stands for, past views
    outputs: dict[str, float] = dict(kept)
    extra = 0.0
    for place in flow.steps:
        layer, name = place.bound.layer, place.bound.layer.name
        origin[name] = origin[place.bound.inputs[0]] if isinstance(layer, VIEWS) else name
        outputs[name] = _part(place.bound.output_shape, place.placements, layout)
        if isinstance(layer, BY_OUTPUT):
            kept[name] = outputs[name]
        if isinstance(layer, BY_INPUT):
            for taken, key, size in _inputs(place, layout):
                source = origin[taken]
                kept[source if key is None else f"{taken} {key}"] = outputs[source] if key is None else size
        extra += _own(layer, place, layout, outputs[name])
    numbers = (sum(kept.values()) + extra) * global_batch / step.accumulate
    return (math.ceil(numbers) + _copied_weights(spec, layout, step)) * step.precision.compute_bytes


def _inputs(place: LayerStep, layout: Layout) -> list[tuple[str, str | None, float]]:
    """Returns a layer's inputs: the taken output, its moves in words (None for none), and numbers a sample."""
    bound = place.bound
    rows = zip(bound.inputs, bound.input_shapes, place.entry, place.input_placements, strict=True)
    return [
        (name, ", ".join(map(str, moves)) or None, _part(shape, placements, layout))
        for name, shape, moves, placements in rows
    ]


def _own(layer: Layer, place: LayerStep, layout: Layout, output: float) -> float:
    """Returns what a layer keeps beside inputs and output."""
    if isinstance(layer, Dropout):
        return output  # the mask
    if isinstance(layer, Attention):
        length = place.bound.output_shape[0]
        probabilities = _part((layer.num_heads, length, length), place.placements, layout)
        return probabilities * (3 if layer.dropout else 1)  # with dropout: before and after it, and the mask
    return 0.0


def _copied_weights(spec: ModelSpec, layout: Layout, step: StepSpec) -> int:
    if step.precision is Precision.fp32:
        return 0
    copied = (parameter for layer in spec.layers if isinstance(layer, IN_PRODUCTS) for parameter in layer.parameters())
    return sum(math.prod(layout.local_shape(parameter)) for parameter in copied)


def _part(shape: Shape, placements: tuple[Placement, ...], layout: Layout) -> float:
    """Returns how many numbers a sample of the global batch adds to an activation on one card."""
    cut = (axis.size for axis, placement in zip(layout.mesh.axes, placements, strict=True) if placement != Replicate())
    return math.prod(shape) / math.prod(cut)
