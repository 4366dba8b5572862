"""Convolutions data parallel and linear layers tensor parallel over the same cards."""

from __future__ import annotations

from core.contracts import Sharder
from core.layout import Axis, Layout, Mesh, Shard
from core.sharders.linear_cuts import cut_linear_layers
from core.spec import ModelSpec


class Hybrid(Sharder):
    """One axis `dp` that cuts the batch for the convolutions and the weights of the linear layers.

    The features of the whole batch are gathered on entry to the linear layers, and each card gets the logits of its own
    samples back. Convolutions have few weights and large activations, linear layers the reverse.

    Source: Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks", arXiv:1404.5997.
    """

    name = "hybrid"

    def plan(self, spec: ModelSpec, cards: int) -> Layout:
        cuts, notes = cut_linear_layers(spec, cards, self.name)
        parameters = {name: (cut,) for name, cut in cuts.items()}
        return Layout(self.name, Mesh((Axis("dp", cards),)), (Shard(0),), parameters, notes=notes)
