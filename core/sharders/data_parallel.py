"""Every card holds the whole model and sees its own part of the batch."""

from __future__ import annotations

from core.contracts import Sharder
from core.layout import Axis, Layout, Mesh, Replicate, Shard
from core.spec import ModelSpec


class DataParallel(Sharder):
    """Data parallelism: one axis `dp`, the batch cut over it, every parameter replicated."""

    name = "data_parallel"

    def plan(self, spec: ModelSpec, cards: int) -> Layout:
        parameters = {parameter.name: (Replicate(),) for parameter in spec.parameters}
        return Layout(self.name, Mesh((Axis("dp", cards),)), (Shard(0),), parameters)
