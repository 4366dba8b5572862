"""Finding the chains of layers that the small convolutions cover."""

from __future__ import annotations

from dataclasses import dataclass

from core.contracts import EngineRequest, Precision
from core.spec import Conv2d, MaxPool2d, ReLU

MOST_CHANNELS = 16  # oneDNN's block of channels; above it the library's convolutions are the faster ones


@dataclass(frozen=True)
class Link:
    """One convolution with what follows it.

    Attributes:
        layer: The convolution.
        pool: Side of the pool's window, 1 for none.
        relu: Whether a ReLU follows.
        num_layers: How many layers of the spec it stands for.
    """

    layer: Conv2d
    pool: int
    relu: bool
    num_layers: int


def chain_at(request: EngineRequest, start: int) -> list[Link]:
    """Returns the links of the chain that begins with layer `start`; empty when there is none.

    The small convolutions are for CPUs, in float32.
    """
    links: list[Link] = []
    if request.rank.device != "cpu" or request.step.precision is not Precision.fp32:
        return links
    while link := _link_at(request, start, is_first=not links):
        links.append(link)
        start += link.num_layers
    return links


def _link_at(request: EngineRequest, start: int, is_first: bool) -> Link | None:
    steps = request.flow.steps
    if start >= len(steps):
        return None
    layer = steps[start].bound.layer
    fits = isinstance(layer, Conv2d) and layer.stride == 1 and layer.groups == 1 and layer.bias
    if not fits or max(layer.in_channels, layer.out_channels) > MOST_CHANNELS:
        return None
    if not is_first and not _follows_alone(request, start):
        return None
    pool, relu, following = 1, False, start + 1
    while following < len(steps) and _follows_alone(request, following):
        after = steps[following].bound.layer
        if isinstance(after, ReLU):
            relu = True
        elif isinstance(after, MaxPool2d) and pool == 1 and after.stride == after.kernel_size and not after.padding:
            pool = after.kernel_size
        else:
            break
        following += 1
    return Link(layer, pool, relu, following - start)


def _follows_alone(request: EngineRequest, position: int) -> bool:
    """Returns whether a layer takes the output of the one before it, which nothing else takes."""
    before, bound = request.flow.steps[position - 1].bound.layer, request.flow.steps[position].bound
    return bound.inputs == (before.name,) and len(request.spec.consumers[before.name]) == 1
