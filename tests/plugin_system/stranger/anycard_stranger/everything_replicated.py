from __future__ import annotations

from dataclasses import dataclass

from core import Sharder
from core.layout import Axis, Layout, Mesh, Replicate
from core.spec import ModelSpec


@dataclass(kw_only=True)
class Options:
    axis: str = "copies"  # name of the only axis


class EverythingReplicated(Sharder):
    """All cards hold everything and see the same batch."""

    name = "everything_replicated"
    Options = Options

    def plan(self, spec: ModelSpec, cards: int) -> Layout:
        parameters = {parameter.name: (Replicate(),) for parameter in spec.parameters}
        return Layout(self.name, Mesh((Axis(self.options.axis, cards),)), (Replicate(),), parameters)
