"""Data parallelism over groups of cards that are tensor parallel within."""

from __future__ import annotations

from dataclasses import dataclass

from core.contracts import Sharder
from core.errors import ConfigError, LayoutError
from core.layout import Axis, Layout, Mesh, Replicate, Shard
from core.sharders.linear_cuts import cut_linear_layers
from core.spec import ModelSpec


@dataclass(kw_only=True)
class DpTpOptions:
    """The options of sharder=dp_tp."""

    tp: int = 2  # cards along the axis `tp`; neighbouring ranks, which should have the fastest links

    def __post_init__(self) -> None:
        if self.tp < 1:
            raise ConfigError("'sharder.tp' is out of range.", received=self.tp, allowed="at least 1")


class DpTp(Sharder):
    """A mesh of two axes: the batch is cut over `dp`, linear layers over `tp`, in pairs of column and row;
    attention by heads and embeddings by ids.

    Source: Shoeybi et al. 2019, arXiv:1909.08053, section 3 and figure 8.
    """

    name = "dp_tp"
    Options = DpTpOptions

    def plan(self, spec: ModelSpec, cards: int) -> Layout:
        tp = self.options.tp
        if cards % tp:
            raise LayoutError(
                f"Cannot arrange {cards} cards in groups of sharder.tp={tp}.",
                allowed=f"cards={tp}, {2 * tp}, {3 * tp}, ...",
                remedy="Change cards or sharder.tp.",
            )
        cuts, notes = cut_linear_layers(spec, tp, self.name)
        mesh = Mesh((Axis("dp", cards // tp), Axis("tp", tp)))
        parameters = {name: (Replicate(), cut) for name, cut in cuts.items()}
        return Layout(self.name, mesh, (Shard(0), Replicate()), parameters, notes=notes)
