"""Turning the layers of a spec into modules of torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from core import spec
from core.contracts import EngineRequest
from core.errors import SpecError
from core.layout import LayerStep, Transition
from core.spec import INPUT, Layer
from plugins.torch_npu_backend import sequence_layers, sharded_layers
from plugins.torch_npu_backend.batch_norm import BatchNorm2d
from plugins.torch_npu_backend.collectives import Move
from plugins.torch_npu_backend.cpu.chains import Link, chain_at
from plugins.torch_npu_backend.cpu.image_layers import BatchFirst, BatchLast, SmallConv2d
from plugins.torch_npu_backend.dropout import Dropout, dropout_key, layer_dropout
from plugins.torch_npu_backend.precision import COMPUTE_DTYPES
from plugins.torch_npu_backend.program import Key, Node, Program
from plugins.torch_npu_backend.step_context import StepContext, whereabouts
from plugins.torch_npu_backend.user_class import UserModule, build_module


@dataclass(frozen=True)
class Site:
    """Where a layer stands: its step, and what its module may need to know."""

    step: LayerStep
    request: EngineRequest
    context: StepContext
    part: int

    def combine(self) -> nn.Sequential:
        """Returns what turns the layer's partial sums into its output."""
        return nn.Sequential(*moves(self.step.exit, self.request))

    def local_shapes(self) -> list[tuple[int, ...]]:
        """Returns the shapes of this rank's parts of the layer's parameters."""
        return [self.request.layout.local_shape(parameter) for parameter in self.step.bound.layer.parameters()]


def build_model(request: EngineRequest, context: StepContext, part: int = 0) -> Program:
    """Returns the model of one rank; its parameters have local shapes and are not yet filled.

    Args:
        request: From what to build.
        context: Of the step, which its layers will read.
        part: Which of this rank's parts of the batch it runs.

    Raises:
        SpecError: A layer has no lowering; names it.
    """
    nodes: list[Node] = []
    holders: dict[str, nn.Module] = {}
    made: set[Key] = set()
    for name, steps, module, members in _lower_all(request, context, part):
        keys, moved = [], []
        for source, entry in zip(steps[0].bound.inputs, steps[0].entry, strict=True):
            path = moves(entry, request)
            key: Key = (source, entry) if path else (source,)
            keys.append(key)
            moved.append(((source,), nn.Sequential(*path)) if path and key not in made else None)
            made.add(key)
        nodes.append(Node(name, module, tuple(keys), tuple(moved)))
        holders |= members
    final = nn.Sequential(*moves(request.flow.final, request))
    return Program(nodes, INPUT, final, holders)


def _lower_all(
    request: EngineRequest, context: StepContext, part: int
) -> Iterator[tuple[str, tuple[LayerStep, ...], nn.Module, dict[str, nn.Module]]]:
    """Yields each module with its output's name, the steps that it stands for and the layers that hold parameters."""
    steps = request.flow.steps
    position = 0
    while position < len(steps):
        chain = chain_at(request, position)
        if chain:
            length = sum(link.num_layers for link in chain)
            covered = steps[position : position + length]
            members = {link.layer.name: _small_conv2d(link) for link in chain}
            yield (
                covered[-1].bound.layer.name,
                covered,
                nn.Sequential(BatchLast(), *members.values(), BatchFirst()),
                members,
            )
            position += length
        else:
            step = steps[position]
            module = lower(Site(step, request, context, part))
            name = step.bound.layer.name
            yield name, (step,), module, {"": module.module} if isinstance(module, UserModule) else {name: module}
            position += 1


def lower(site: Site) -> nn.Module:
    """Returns the module of one layer.

    Raises:
        SpecError: There is none for a layer of this type.
    """
    layer = site.step.bound.layer
    if type(layer) not in LOWERINGS:
        raise SpecError(
            f"Backend 'torch_npu' cannot lower layer '{layer.name}'.",
            received=type(layer).__name__,
            allowed=", ".join(sorted(kind.__name__ for kind in LOWERINGS)),
        )
    return LOWERINGS[type(layer)](layer, site)


def moves(transitions: tuple[Transition, ...], request: EngineRequest) -> list[Move]:
    """Returns the transitions that move something, as modules."""
    mesh = request.layout.mesh
    dtype = COMPUTE_DTYPES.get(request.step.precision)
    return [
        Move(transition, request.communicator, mesh, request.rank.rank, dtype)
        for transition in transitions
        if mesh.size(transition.axis) > 1
    ]


def _small_conv2d(link: Link) -> SmallConv2d:
    return SmallConv2d(link.layer.parameters()[0].shape, link.layer.padding, link.pool, link.relu)


def _linear(layer: spec.Linear, site: Site) -> nn.Module:
    weight, bias = site.local_shapes()
    return sharded_layers.Linear(weight, bias, site.combine())


def _conv2d(layer: spec.Conv2d, site: Site) -> nn.Module:
    return sharded_layers.Conv2d(layer)


def _batch_norm(layer: spec.BatchNorm2d, site: Site) -> nn.Module:
    layout = site.request.layout
    axes = tuple(axis for axis in layout.batch_axes if layout.mesh.size(axis) > 1) if layer.synchronized else ()
    is_ordered = site.request.step.shards is not None
    return BatchNorm2d(layer.num_features, layer.eps, axes, is_ordered, site.request.communicator, site.context)


def _dropout(layer: spec.Dropout, site: Site) -> nn.Module:
    place = whereabouts(site.request, site.step.placements, site.part)
    shape = site.step.bound.output_shape
    return layer_dropout(site.request.seed, layer.name, layer.probability, shape, place, site.context)


def _embedding(layer: spec.Embedding, site: Site) -> nn.Module:
    (shape,) = site.local_shapes()
    rows = site.request.layout.local_slices(layer.parameters()[0], site.request.rank.rank)[0]
    return sequence_layers.Embedding(shape, rows.start, site.combine())


def _attention(layer: spec.Attention, site: Site) -> nn.Module:
    place = whereabouts(site.request, site.step.placements, site.part)
    length = site.step.bound.output_shape[0]
    shape = (layer.num_heads, length, length)
    key = dropout_key(site.request.seed, layer.name)
    dropout = Dropout(key, layer.dropout, shape, place, 0, site.context) if layer.dropout else None
    return sequence_layers.Attention(layer.num_heads // place.num_feature_parts, dropout)


def _native(layer: spec.Native, site: Site) -> nn.Module:
    seed = site.request.seed
    module = build_module(layer.target, json.loads(layer.arguments), seed)
    return UserModule(module, layer.num_classes, seed, site.part, site.context)


LOWERINGS: dict[type[Layer], Callable[..., nn.Module]] = {
    spec.Add: lambda layer, site: _Sum(),
    spec.AddPositions: lambda layer, site: sequence_layers.AddPositions(*site.local_shapes()),
    spec.AddSegment: lambda layer, site: sequence_layers.AddSegment(*site.local_shapes()),
    spec.Attention: _attention,
    spec.AvgPool2d: lambda layer, site: nn.AvgPool2d(layer.kernel_size, layer.stride, layer.padding),
    spec.BatchNorm2d: _batch_norm,
    spec.Conv2d: _conv2d,
    spec.Dropout: _dropout,
    spec.Embedding: _embedding,
    spec.FirstToken: lambda layer, site: sequence_layers.FirstToken(),
    spec.Flatten: lambda layer, site: nn.Flatten(),
    spec.GELU: lambda layer, site: nn.GELU(),
    spec.GlobalAvgPool2d: lambda layer, site: _GlobalMean(),
    spec.LayerNorm: lambda layer, site: nn.LayerNorm(layer.num_features, layer.eps),
    spec.Linear: _linear,
    spec.MaxPool2d: lambda layer, site: nn.MaxPool2d(layer.kernel_size, layer.stride, layer.padding),
    spec.Native: _native,
    spec.ReLU: lambda layer, site: nn.ReLU(),
    spec.ReLU6: lambda layer, site: nn.ReLU6(),
    spec.Tanh: lambda layer, site: nn.Tanh(),
}


class _Sum(nn.Module):
    """The sum of two activations."""

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return one + other


class _GlobalMean(nn.Module):
    """The mean over height and width."""

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.mean((2, 3))


def batch_norms(model_spec: spec.ModelSpec, model: Program) -> list[tuple[BatchNorm2d, float]]:
    """Returns the batch norms of a model with their momentum, in the order of the layers."""
    momenta = {layer.name: layer.momentum for layer in model_spec.layers if isinstance(layer, spec.BatchNorm2d)}
    return [(model.member(name), momentum) for name, momentum in momenta.items()]  # type: ignore[misc]


def user_buffers(model_spec: spec.ModelSpec) -> list[str]:
    """Returns the names of the buffers that users' modules change."""
    return [one.name for layer in model_spec.layers if isinstance(layer, spec.Native) for one in layer.moving]


def is_image_model(model: nn.Module) -> bool:
    """Returns whether the model has convolutions, which run best on images laid out channels last.

    A user's module gets contiguous images, since it may view them in another shape.
    """
    modules = list(model.modules())
    if any(isinstance(module, UserModule) for module in modules):
        return False
    return any(isinstance(module, (sharded_layers.Conv2d, nn.MaxPool2d)) for module in modules)


def as_model_input(samples: torch.Tensor, channels_last: bool) -> torch.Tensor:
    """Returns a batch in the memory format that the model wants."""
    if channels_last and samples.dim() == 4:
        return samples.contiguous(memory_format=torch.channels_last)
    return samples
