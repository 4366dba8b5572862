"""A layout: a mesh, and how every parameter and the batch lie on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from core.errors import LayoutError
from core.layout.mesh import Mesh
from core.layout.placement import Placement, Shard
from core.spec import ModelSpec, ParameterSpec

Placements = tuple[Placement, ...]


@dataclass(frozen=True)
class Layout:
    """The mesh and the placements that a sharder chose; one placement an axis, in the mesh's order.

    The optimizer's state of a parameter lies as the parameter does, unless `state_axes` says that it is shared.

    Attributes:
        sharder: Name of the sharder, for reports.
        mesh: The cards.
        batch: Placement of the batch; `Shard(0)` splits it, `Replicate()` shows all cards the same one.
        parameters: Placements of each parameter by canonical name.
        state_axes: Axes over whose cards the optimizer's state is shared out: each keeps an equal, flat piece of every
            gradient bucket's, updates that piece of the parameters and gathers the others' (ZeRO, stage 1; Rajbhandari
            et al. 2020, arXiv:1910.02054, section 5.1).
        notes: What a user should know of this layout, a sentence each.
    """

    sharder: str
    mesh: Mesh
    batch: Placements
    parameters: Mapping[str, Placements] = field(hash=False)
    state_axes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def batch_axes(self) -> tuple[str, ...]:
        """Names of the axes that split the batch."""
        return tuple(axis.name for axis, p in zip(self.mesh.axes, self.batch, strict=True) if p == Shard(0))

    @property
    def num_batch_shards(self) -> int:
        """Into how many parts the global batch is cut."""
        size = 1
        for axis in self.batch_axes:
            size *= self.mesh.size(axis)
        return size

    def batch_shard(self, rank: int) -> int:
        """Returns which part of the global batch `rank` reads, in [0, num_batch_shards)."""
        position = self.mesh.coordinates(rank)
        index = 0
        for axis in self.batch_axes:
            index = index * self.mesh.size(axis) + position[axis]
        return index

    def shards(self, name: str) -> Iterator[tuple[str, int]]:
        """Yields (axis, dim) for every axis over which parameter `name` is cut."""
        for axis, placement in zip(self.mesh.axes, self.parameters[name], strict=True):
            if isinstance(placement, Shard):
                yield axis.name, placement.dim

    @property
    def sharded_axes(self) -> tuple[str, ...]:
        """Names of the axes over which any parameter is cut."""
        cut = {axis for name in self.parameters for axis, _ in self.shards(name)}
        return tuple(axis for axis in self.mesh.axis_names if axis in cut)

    def num_copies(self, name: str) -> int:
        """Returns how many of the cards along `sharded_axes` hold the same part of parameter `name`."""
        cut = {axis for axis, _ in self.shards(name)}
        copies = 1
        for axis in self.sharded_axes:
            copies *= 1 if axis in cut else self.mesh.size(axis)
        return copies

    def local_shape(self, parameter: ParameterSpec) -> tuple[int, ...]:
        """Returns the shape of the part of `parameter` that one card holds.

        Raises:
            LayoutError: A dim does not divide by the axis over which it is cut.
        """
        shape = list(parameter.shape)
        for axis, dim in self.shards(parameter.name):
            size = self.mesh.size(axis)
            if shape[dim] % size:
                raise LayoutError(
                    f"Cannot split '{parameter.name}' of shape {parameter.shape} on dim {dim} over axis '{axis}' of "
                    f"size {size}: {shape[dim]} is not divisible by {size}.",
                    remedy=f"Use a size that divides {shape[dim]}, or sharder=data_parallel.",
                )
            shape[dim] //= size
        return tuple(shape)

    def local_slices(self, parameter: ParameterSpec, rank: int) -> tuple[slice, ...]:
        """Returns the slices of the full tensor that `rank` holds."""
        position = self.mesh.coordinates(rank)
        slices = [slice(0, size) for size in parameter.shape]
        for axis, dim in self.shards(parameter.name):
            part = (slices[dim].stop - slices[dim].start) // self.mesh.size(axis)
            start = slices[dim].start + position[axis] * part
            slices[dim] = slice(start, start + part)
        return tuple(slices)

    def check(self, spec: ModelSpec) -> None:
        """Checks that the layout covers `spec`.

        Raises:
            LayoutError: A parameter is missing or unknown, has another number of placements than the mesh has axes,
                or does not divide; or the optimizer's state is shared over what does not split the batch alone.
        """
        if self.state_axes and (self.sharded_axes or self.state_axes != self.batch_axes):
            raise LayoutError(
                f"Sharder '{self.sharder}' shares the optimizer's state over {', '.join(self.state_axes)}, which must "
                "be the axes that split the batch, with every parameter replicated.",
                received=f"batch over {', '.join(self.batch_axes)}; parameters cut over {', '.join(self.sharded_axes)}",
            )
        expected = {parameter.name for parameter in spec.parameters}
        if expected != set(self.parameters):
            odd = sorted(expected ^ set(self.parameters))
            raise LayoutError(
                f"Sharder '{self.sharder}' does not place the parameters of model '{spec.name}'.",
                received=f"missing or unknown: {', '.join(odd)}",
            )
        for parameter in spec.parameters:
            if len(self.parameters[parameter.name]) != len(self.mesh.axes):
                raise LayoutError(
                    f"'{parameter.name}' needs one placement for each axis of the mesh ({self.mesh}).",
                    received=", ".join(map(str, self.parameters[parameter.name])),
                )
            self.local_shape(parameter)
