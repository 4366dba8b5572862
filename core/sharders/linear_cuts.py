"""How a chain of linear layers is cut over one axis."""

from __future__ import annotations

from core.errors import LayoutError
from core.layout import Replicate, Shard
from core.layout.layout import Placements
from core.spec import Linear, ModelSpec

MOST_CARDS_TO_SUGGEST = 16


def cut_linear_layers(spec: ModelSpec, size: int, sharder: str) -> dict[str, Placements]:
    """Returns the placements, along one axis of `size` cards, that cut every linear layer and replicate the rest.

    Layers are taken in pairs, the first cut by its outputs (column), the second by its inputs (row), so that nothing
    moves between the two. A last layer without a partner follows a row layer and is cut by its inputs too: its outputs
    are the classes, which are few and seldom divide, and the sum before it can be scattered over its inputs. A model
    whose only linear layer is the last is cut in the same way.

    Raises:
        LayoutError: A linear layer does not divide by `size`; says which and which numbers of cards would do.
    """
    linears = [layer for layer in spec.layers if isinstance(layer, Linear)]
    columns = {layer.name for layer in linears[: len(linears) // 2 * 2 : 2]}
    for layer in linears:
        cut = layer.out_features if layer.name in columns else layer.in_features
        if cut % size:
            side = "outputs" if layer.name in columns else "inputs"
            allowed = [n for n in range(1, MOST_CARDS_TO_SUGGEST + 1) if _divides(linears, columns, n)]
            raise LayoutError(
                f"Cannot cut linear layer '{layer.name}' by its {cut} {side} over {size} cards: {cut} is not "
                f"divisible by {size}.",
                allowed=f"cards={'|'.join(map(str, allowed))} with sharder={sharder} for model '{spec.name}'",
                remedy="Use one of these, or sharder=data_parallel, which takes any number of cards.",
            )
    placements: dict[str, Placements] = {parameter.name: (Replicate(),) for parameter in spec.parameters}
    for position, layer in enumerate(linears):
        following = linears[position + 1].name if position + 1 < len(linears) else None
        if layer.name in columns:
            placements[f"{layer.name}.weight"] = (Shard(0),)
            placements[f"{layer.name}.bias"] = (Shard(0),)
        else:
            placements[f"{layer.name}.weight"] = (Shard(1),)
            if following is not None and following not in columns:
                placements[f"{layer.name}.bias"] = (Shard(0),)
    return placements


def _divides(linears: list[Linear], columns: set[str], size: int) -> bool:
    return all((layer.out_features if layer.name in columns else layer.in_features) % size == 0 for layer in linears)
