"""How one tensor lies along one axis of a mesh.

The three placements are those of `torch.distributed.tensor` (2.13) and mean the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Replicate:
    """Every card along the axis holds the whole tensor."""

    def __str__(self) -> str:
        return "Replicate"


@dataclass(frozen=True)
class Shard:
    """Every card along the axis holds an equal part of dim `dim`, in order; dim -1 is the last."""

    dim: int

    def __str__(self) -> str:
        return f"Shard({self.dim})"


@dataclass(frozen=True)
class Partial:
    """Every card along the axis holds a term of the tensor, to be combined by `op`."""

    op: str = "sum"

    def __str__(self) -> str:
        return f"Partial({self.op})"


Placement = Replicate | Shard | Partial
