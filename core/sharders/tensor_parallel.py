"""Linear layers cut over the cards, all of which see the same batch."""

from __future__ import annotations

from core.contracts import Sharder
from core.layout import Axis, Layout, Mesh, Replicate
from core.sharders.linear_cuts import cut_linear_layers
from core.spec import ModelSpec


class TensorParallel(Sharder):
    """Megatron-style tensor parallelism: one axis `tp` over which linear layers are cut in pairs, column then row.

    Source: Shoeybi et al. 2019, arXiv:1909.08053, section 3.
    """

    name = "tensor_parallel"

    def plan(self, spec: ModelSpec, cards: int) -> Layout:
        cuts, notes = cut_linear_layers(spec, cards, self.name)
        parameters = {name: (cut,) for name, cut in cuts.items()}
        return Layout(self.name, Mesh((Axis("tp", cards),)), (Replicate(),), parameters, notes=notes)
