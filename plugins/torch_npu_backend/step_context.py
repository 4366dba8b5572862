"""What layers need to know of the step that is running."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from core.contracts import EngineRequest
from core.layout import Placement, Replicate, Shard


@dataclass
class StepContext:
    """Filled by the engine before each pass, read by layers.

    Attributes:
        epoch: From 0.
        ids: Samples of the whole batch of this pass, int64 (num_parts, rows) on the device; -1 for padding. A card has
            one part, or several in a row where the batch is computed in more parts than there are cards.
        counts: Real rows of each part of the batch; they come before its padding.
        own_counts: Those of this rank's parts.
        own_first_ids: The first sample of each of this rank's parts, -1 for padding; on the host.
    """

    epoch: int = 0
    ids: torch.Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.int64))
    counts: list[int] = field(default_factory=list)
    own_counts: list[int] = field(default_factory=list)
    own_first_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Whereabouts:
    """Which part of an activation lies on this rank.

    Attributes:
        shards: The parts of the batch whose rows are here, in order.
        feature_part: Which part of the last dim is here, in [0, num_feature_parts).
        num_feature_parts: Into how many parts the last dim is cut.
    """

    shards: tuple[int, ...]
    feature_part: int
    num_feature_parts: int


def parts_per_card(request: EngineRequest) -> int:
    """Returns how many parts of the batch each card computes, one after another in its rows."""
    num_shards = request.layout.num_batch_shards
    return (request.step.shards or num_shards) // num_shards


def whereabouts(request: EngineRequest, placements: tuple[Placement, ...], part: int) -> Whereabouts:
    """Returns what this rank holds of an activation.

    Args:
        request: Of the engine.
        placements: Where the activation lies, one placement an axis.
        part: Which of this rank's parts of the batch.
    """
    layout, rank = request.layout, request.rank.rank
    parts = parts_per_card(request)
    position = layout.mesh.coordinates(rank)
    feature_part, num_feature_parts = 0, 1
    fixed: dict[str, int] = {}
    for axis, placement in zip(layout.mesh.axes, placements, strict=True):
        if placement == Shard(-1):
            feature_part = feature_part * axis.size + position[axis.name]
            num_feature_parts *= axis.size
        elif placement == Shard(0):
            fixed[axis.name] = position[axis.name]
        else:
            assert placement == Replicate(), placement
    shards = sorted(
        {
            layout.batch_shard(other) * parts + part
            for other in range(layout.mesh.num_cards)
            if all(layout.mesh.coordinates(other)[axis] == place for axis, place in fixed.items())
        }
    )
    return Whereabouts(tuple(shards), feature_part, num_feature_parts)
