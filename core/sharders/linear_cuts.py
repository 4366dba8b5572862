"""How linear layers, attention and embeddings are cut over one axis."""

from __future__ import annotations

from collections.abc import Iterator

from core.errors import LayoutError
from core.layout import Placement, Replicate, Shard
from core.spec import Attention, BoundLayer, Embedding, Linear, ModelSpec, Native

MOST_CARDS_TO_SUGGEST = 16

COLUMN, ROW = Shard(0), Shard(1)


def cut_linear_layers(spec: ModelSpec, size: int, sharder: str) -> tuple[dict[str, Placement], tuple[str, ...]]:
    """Returns the placements along one axis of `size` cards that cut every linear layer, and notes for the user.

    Layers are cut in pairs, the first by its outputs (column), the second, which takes what the first gives, by its
    inputs (row), so that nothing moves between the two: query, key and value by columns and so by heads, what follows
    the attention by rows. A layer without a partner is cut by its inputs, such as a model's last: its outputs are the
    classes, which are few and seldom divide, and the sum before it can be scattered over its inputs. Embeddings are cut
    by their ids where these divide; where they do not, the embedding stays whole, and a note says so. All else is
    replicated.

    Raises:
        LayoutError: The model is a user's class; or a linear layer or an attention's heads do not divide by `size`:
            says which, and which numbers of cards would do.
    """
    native = next((layer for layer in spec.layers if isinstance(layer, Native)), None)
    if native is not None:
        raise LayoutError(
            f"Sharder '{sharder}' cannot cut a user's class: it is whole on every card.",
            received=f"model '{spec.name}', {native.target}",
            allowed="a sharder that only splits the batch",
            remedy="Use sharder=data_parallel or sharder=zero1.",
        )
    cuts = _cuts(spec)
    for what, count, side in _divided(spec, cuts):
        if count % size:
            counts = [count for _, count, _ in _divided(spec, cuts)]
            allowed = [n for n in range(1, MOST_CARDS_TO_SUGGEST + 1) if all(count % n == 0 for count in counts)]
            raise LayoutError(
                f"Cannot cut {what} by its {count} {side} over {size} cards: {count} is not divisible by {size}.",
                allowed=f"cards={'|'.join(map(str, allowed))} with sharder={sharder} for model '{spec.name}'",
                remedy="Use one of these, or sharder=data_parallel, which takes any number of cards.",
            )
    placements: dict[str, Placement] = {parameter.name: Replicate() for parameter in spec.parameters}
    notes: list[str] = []
    for bound in spec.bound:
        layer = bound.layer
        if isinstance(layer, Linear):
            cut = cuts[layer.name]
            placements[f"{layer.name}.weight"] = cut
            if cut == COLUMN or _goes_to_rows_alone(spec, bound, cuts):
                placements[f"{layer.name}.bias"] = Shard(0)
        elif isinstance(layer, Embedding) and layer.num_embeddings % size == 0:
            placements[f"{layer.name}.weight"] = Shard(0)
        elif isinstance(layer, Embedding):
            notes.append(
                f"'{layer.name}' stays whole on every card: its {layer.num_embeddings} ids do not divide by {size}"
            )
    return placements, tuple(notes)


def _cuts(spec: ModelSpec) -> dict[str, Placement]:
    """Returns the cut of every linear layer."""
    cuts: dict[str, Placement] = {}
    given: dict[str, bool] = {}  # whether a layer's output is cut along its features
    for bound in spec.bound:
        is_cut = given.get(bound.inputs[0], False)
        given[bound.layer.name] = bound.layer.works_on_parts and is_cut
        if isinstance(bound.layer, Linear):
            has_partner = not is_cut and _has_linear_taker(spec, bound)
            cuts[bound.layer.name] = COLUMN if has_partner else ROW
            given[bound.layer.name] = has_partner
    return cuts


def _has_linear_taker(spec: ModelSpec, bound: BoundLayer) -> bool:
    """Returns whether a linear layer takes a layer's output, past those that work on parts."""
    return any(
        isinstance(taker.layer, Linear) or (taker.layer.works_on_parts and _has_linear_taker(spec, taker))
        for taker in spec.consumers[bound.layer.name]
    )


def _goes_to_rows_alone(spec: ModelSpec, bound: BoundLayer, cuts: dict[str, Placement]) -> bool:
    """Returns whether every taker of a layer's output, past those that work on parts, is a linear layer cut by rows."""
    takers = spec.consumers[bound.layer.name]
    return bool(takers) and all(
        cuts[taker.layer.name] == ROW
        if isinstance(taker.layer, Linear)
        else taker.layer.works_on_parts and _goes_to_rows_alone(spec, taker, cuts)
        for taker in takers
    )


def _divided(spec: ModelSpec, cuts: dict[str, Placement]) -> Iterator[tuple[str, int, str]]:
    """Yields what has to divide: a layer in words, a count, and what is counted."""
    for bound in spec.bound:
        layer = bound.layer
        if isinstance(layer, Linear):
            is_column = cuts[layer.name] == COLUMN
            count, side = (layer.out_features, "outputs") if is_column else (layer.in_features, "inputs")
            yield f"linear layer '{layer.name}'", count, side
        elif isinstance(layer, Attention) and cuts.get(bound.inputs[0]) == COLUMN:
            yield f"attention '{layer.name}'", layer.num_heads, "heads"
