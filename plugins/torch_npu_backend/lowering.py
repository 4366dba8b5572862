"""Turning the layers of a spec into modules of torch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn

from core.contracts import EngineRequest
from core.errors import SpecError
from core.layout import LayerStep, Transition
from core.spec import Conv2d, Flatten, Layer, Linear, MaxPool2d, ReLU
from plugins.torch_npu_backend import sharded_layers
from plugins.torch_npu_backend.collectives import Move
from plugins.torch_npu_backend.cpu.chains import Link, chain_at
from plugins.torch_npu_backend.cpu.image_layers import BatchFirst, BatchLast, SmallConv2d


def build_model(request: EngineRequest) -> nn.Sequential:
    """Returns the model of one rank; its parameters have canonical names and local shapes and are not yet filled.

    Raises:
        SpecError: A layer has no lowering; names it.
    """
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    steps = request.flow.steps
    position = 0
    while position < len(steps):
        layer = steps[position].bound.layer
        for index, move in enumerate(moves(steps[position].entry, request)):
            modules[f"{layer.name}:entry{index}"] = move
        chain = chain_at(steps, position) if request.rank.device == "cpu" else []
        if chain:
            modules |= _lower_chain(chain)
            position += sum(link.num_layers for link in chain)
        else:
            modules[layer.name] = lower(steps[position], request)
            position += 1
    for index, move in enumerate(moves(request.flow.final, request)):
        modules[f"exit{index}"] = move
    return nn.Sequential(modules)


def lower(step: LayerStep, request: EngineRequest) -> nn.Module:
    """Returns the module of one layer.

    Raises:
        SpecError: There is none for a layer of this type.
    """
    layer = step.bound.layer
    if type(layer) not in LOWERINGS:
        raise SpecError(
            f"Backend 'torch_npu' cannot lower layer '{layer.name}'.",
            received=type(layer).__name__,
            allowed=", ".join(sorted(kind.__name__ for kind in LOWERINGS)),
        )
    return LOWERINGS[type(layer)](layer, step, request)


def moves(transitions: tuple[Transition, ...], request: EngineRequest) -> list[Move]:
    """Returns the transitions that move something, as modules."""
    mesh = request.layout.mesh
    return [
        Move(transition, request.communicator, mesh, request.rank.rank)
        for transition in transitions
        if mesh.size(transition.axis) > 1
    ]


def _lower_chain(chain: list[Link]) -> dict[str, nn.Module]:
    """Returns the modules of a chain of small convolutions, with the changes of memory layout around it."""
    first = chain[0].layer.name
    modules: dict[str, nn.Module] = {f"{first}:batch_last": BatchLast()}
    for link in chain:
        weight, _ = link.layer.parameters()
        modules[link.layer.name] = SmallConv2d(weight.shape, link.layer.padding, link.pool, link.relu)
    modules[f"{first}:batch_first"] = BatchFirst()
    return modules


def _linear(layer: Linear, step: LayerStep, request: EngineRequest) -> nn.Module:
    weight, bias = (request.layout.local_shape(parameter) for parameter in layer.parameters())
    return sharded_layers.Linear(weight, bias, nn.Sequential(*moves(step.exit, request)))


def _conv2d(layer: Conv2d, step: LayerStep, request: EngineRequest) -> nn.Module:
    weight, _ = (request.layout.local_shape(parameter) for parameter in layer.parameters())
    return sharded_layers.Conv2d(weight, layer.stride, layer.padding)


def _max_pool2d(layer: MaxPool2d, step: LayerStep, request: EngineRequest) -> nn.Module:
    return nn.MaxPool2d(layer.kernel_size, layer.stride)


def _relu(layer: ReLU, step: LayerStep, request: EngineRequest) -> nn.Module:
    return nn.ReLU()


def _flatten(layer: Flatten, step: LayerStep, request: EngineRequest) -> nn.Module:
    return nn.Flatten()


LOWERINGS: dict[type[Layer], Callable[..., nn.Module]] = {
    Conv2d: _conv2d,
    Flatten: _flatten,
    Linear: _linear,
    MaxPool2d: _max_pool2d,
    ReLU: _relu,
}


def is_image_model(model: nn.Module) -> bool:
    """Returns whether the model has convolutions, which run best on images laid out channels last."""
    return any(isinstance(module, (sharded_layers.Conv2d, nn.MaxPool2d)) for module in model.modules())


def as_model_input(samples: torch.Tensor, channels_last: bool) -> torch.Tensor:
    """Returns a batch in the memory format that the model wants."""
    if channels_last and samples.dim() == 4:
        return samples.contiguous(memory_format=torch.channels_last)
    return samples
