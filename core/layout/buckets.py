"""Which gradients travel together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.layout.flow import Flow
from core.layout.layout import Layout
from core.spec import ModelSpec

FP32_BYTES = 4
MIB = 2**20
DEFAULT_BUCKET_MB = 25.0  # the default of torch's DistributedDataParallel


@dataclass(frozen=True)
class Bucket:
    """Gradients in one flat tensor on each card.

    Attributes:
        names: Of the parameters, in the order in which they lie in it, the last layer's first.
        axes: The axes, of more than one card, over which it is summed; none for gradients that are whole already.
        num_elements: Of one card's flat tensor, padding included.
        num_pieces: Into how many equal pieces it is cut, one a card of the axis that shares the optimizer's state; 1
            where every card holds that whole.
    """

    names: tuple[str, ...]
    axes: tuple[str, ...]
    num_elements: int
    num_pieces: int = 1

    @property
    def num_bytes(self) -> int:
        return self.num_elements * FP32_BYTES


def gradient_buckets(
    spec: ModelSpec, layout: Layout, flow: Flow, bucket_mb: float = DEFAULT_BUCKET_MB
) -> tuple[Bucket, ...]:
    """Returns the buckets in the order in which the backward pass fills them.

    A bucket holds gradients that are summed over the same axes, from the last layer on, up to about `bucket_mb` MiB.
    Those that are not summed share one of any size. Where the optimizer's state is shared, a bucket is padded to whole
    pieces.
    """
    mesh = layout.mesh
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    sizes = {parameter.name: math.prod(layout.local_shape(parameter)) for parameter in spec.parameters}
    for parameter in reversed(spec.parameters):
        axes = tuple(axis for axis in flow.gradient_axes[parameter.name] if mesh.size(axis) > 1)
        found = groups.setdefault(axes, [[]])
        held = sum(sizes[name] for name in found[-1])
        if found[-1] and axes and (held + sizes[parameter.name]) * FP32_BYTES > bucket_mb * MIB:
            found.append([])
        found[-1].append(parameter.name)
    return tuple(
        _bucket(tuple(names), axes, sum(sizes[name] for name in names), layout)
        for axes, found in groups.items()
        for names in found
    )


def _bucket(names: tuple[str, ...], axes: tuple[str, ...], num_elements: int, layout: Layout) -> Bucket:
    pieces = math.prod(layout.mesh.size(axis) for axis in layout.state_axes)
    return Bucket(names, axes, -(-num_elements // pieces) * pieces, pieces)
