"""Finding the chains of layers that the small convolutions cover."""

from __future__ import annotations

from dataclasses import dataclass

from core.layout import LayerStep
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


def chain_at(steps: tuple[LayerStep, ...], start: int) -> list[Link]:
    """Returns the links of the chain that begins with layer `start`; empty when there is none."""
    links: list[Link] = []
    while link := _link_at(steps, start):
        links.append(link)
        start += link.num_layers
    return links


def _link_at(steps: tuple[LayerStep, ...], start: int) -> Link | None:
    if start >= len(steps):
        return None
    layer = steps[start].bound.layer
    if not isinstance(layer, Conv2d) or layer.stride != 1 or max(layer.in_channels, layer.out_channels) > MOST_CHANNELS:
        return None
    pool, relu, following = 1, False, start + 1
    while following < len(steps):
        after = steps[following].bound.layer
        if isinstance(after, ReLU):
            relu = True
        elif isinstance(after, MaxPool2d) and pool == 1 and after.stride == after.kernel_size:
            pool = after.kernel_size
        else:
            break
        following += 1
    return Link(layer, pool, relu, following - start)
