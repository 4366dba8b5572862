"""Data parallelism that shares out the optimizer's state."""

from __future__ import annotations

from core.contracts import Sharder
from core.layout import Axis, Layout, Mesh, Replicate, Shard
from core.spec import ModelSpec


class Zero1(Sharder):
    """As data_parallel, but each card keeps and updates one equal piece of the optimizer's state.

    Source: Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054, section 5.1 (P_os).
    """

    name = "zero1"

    def plan(self, spec: ModelSpec, cards: int) -> Layout:
        parameters = {parameter.name: (Replicate(),) for parameter in spec.parameters}
        return Layout(self.name, Mesh((Axis("dp", cards),)), (Shard(0),), parameters, state_axes=("dp",))
