"""Cards arranged along named axes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """One axis of a mesh: a name (dp, tp, pp) and the number of cards along it."""

    name: str
    size: int

    def __str__(self) -> str:
        return f"{self.name}={self.size}"


@dataclass(frozen=True)
class Mesh:
    """All cards of a run; the last axis varies fastest, so neighbours along it are neighbouring ranks."""

    axes: tuple[Axis, ...]

    @property
    def num_cards(self) -> int:
        return math.prod(axis.size for axis in self.axes)

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    def size(self, axis: str) -> int:
        """Returns the number of cards along `axis`."""
        return self.axes[self.axis_names.index(axis)].size

    def coordinates(self, rank: int) -> dict[str, int]:
        """Returns the position of `rank` along each axis."""
        position: dict[str, int] = {}
        for axis in reversed(self.axes):
            rank, position[axis.name] = divmod(rank, axis.size)
        return {axis.name: position[axis.name] for axis in self.axes}

    def groups(self, axes: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Returns the ranks that differ along `axes` alone, group by group, each in ascending order."""
        members: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.num_cards):
            position = self.coordinates(rank)
            key = tuple(position[name] for name in self.axis_names if name not in axes)
            members.setdefault(key, []).append(rank)
        return tuple(tuple(ranks) for ranks in members.values())

    def __str__(self) -> str:
        return " x ".join(str(axis) for axis in self.axes)
