"""Moving an activation from one placement to another, with the adjoint that its gradient takes back.

The gradient of an activation lies as the activation does, save that where the consumer computes a different part of its
output on each card from a replicated input (a column-parallel linear layer), each card has but a term of the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.layout.placement import Partial, Placement, Replicate, Shard

IDENTITY = "identity"
SLICE = "slice"
ALL_REDUCE = "all_reduce"
ALL_GATHER = "all_gather"
REDUCE_SCATTER = "reduce_scatter"
ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True)
class Transition:
    """One step between two placements of an activation along one axis.

    Attributes:
        axis: The mesh axis.
        forward: The collective of the forward pass, or identity or slice, which move nothing.
        backward: Its adjoint.
        dim: The dim that is gathered, scattered or sliced; for all_to_all the dim that is gathered.
        other_dim: For all_to_all the dim that is cut.
    """

    axis: str
    forward: str
    backward: str
    dim: int = 0
    other_dim: int = 0

    def __str__(self) -> str:
        return f"{self.forward}({self.axis}, dim {self.dim}) / {self.backward}"


def transition(axis: str, source: Placement, target: Placement, gradient_is_partial: bool) -> Transition | None:
    """Returns how to go from `source` to `target` along `axis`, or None when there is nothing to do.

    Args:
        axis: The mesh axis.
        source: Where the activation is.
        target: Where its consumer wants it.
        gradient_is_partial: Whether each card gets but a term of the gradient back (`target` is then Replicate).
    """
    match source, target:
        case Replicate(), Replicate():
            return Transition(axis, IDENTITY, ALL_REDUCE) if gradient_is_partial else None
        case Shard(dim), Replicate():
            return Transition(axis, ALL_GATHER, REDUCE_SCATTER if gradient_is_partial else SLICE, dim)
        case Partial(), Replicate():
            return Transition(axis, ALL_REDUCE, ALL_REDUCE if gradient_is_partial else IDENTITY)
        case Replicate(), Shard(dim):
            return Transition(axis, SLICE, ALL_GATHER, dim)
        case Partial(), Shard(dim):
            return Transition(axis, REDUCE_SCATTER, ALL_GATHER, dim)
        case Shard(gathered), Shard(cut):
            return None if gathered == cut else Transition(axis, ALL_TO_ALL, ALL_TO_ALL, gathered, cut)
    raise AssertionError(f"no transition from {source} to {target}")
