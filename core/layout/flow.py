"""From a spec and a layout to the collectives between the layers: the part of a step that every backend shares.

Along one axis an activation is replicated, cut along the batch (`Shard(0)`) or cut along its last dim (`Shard(-1)`).
What a layer asks of its inputs follows from the placement of its weight:

- replicated weight, or none: any whole sample will do, so the inputs are taken as the batch lies; a layer that works on
  parts of the last dim takes them as they come;
- linear weight cut by outputs, `Shard(0)` (column parallel): the whole batch and all features; gives `Shard(-1)`;
- linear weight cut by inputs, `Shard(1)` (row parallel): the whole batch and its own features; gives a partial sum,
  which goes straight to what the next layer asks for;
- embedding cut by ids, `Shard(0)` (vocabulary parallel): the whole batch; each card looks up its own ids and has zeros
  for the others, a partial sum too.

When the axis also splits the batch, this gathers the activations on entry and scatters them on exit: data-parallel
convolutions with tensor-parallel linear layers on the same cards. When it does not, it is Megatron's pairing.

Source: Krizhevsky 2014, arXiv:1404.5997; Shoeybi et al. 2019, arXiv:1909.08053, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from core.errors import LayoutError
from core.layout.layout import Layout
from core.layout.placement import Partial, Placement, Replicate, Shard
from core.layout.transition import IDENTITY, Transition, transition
from core.spec import INPUT, BoundLayer, Embedding, Linear, ModelSpec, Shape

COLUMN = Shard(0)
ROW = Shard(1)
FEATURES = Shard(-1)

Moves = tuple[Transition, ...]


@dataclass(frozen=True)
class LayerStep:
    """One layer with what happens to its activations before and after.

    Attributes:
        bound: The layer and its full shapes.
        entry: Transitions before the layer, one tuple an input. Layers that ask the same of the same output share the
            moved tensor: it moves once.
        exit: Transitions of the layer's partial sums, before its bias is added.
        input_placements: Where each input lies, after `entry`, one placement an axis.
        placements: Where the layer's output lies, after `exit`, one placement an axis.
    """

    bound: BoundLayer
    entry: tuple[Moves, ...]
    exit: Moves
    input_placements: tuple[tuple[Placement, ...], ...]
    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class Flow:
    """The whole forward pass, and which gradients are partial.

    Attributes:
        steps: One a layer.
        final: Transitions that bring the logits to the batch's placement.
        gradient_axes: For each parameter the axes over which its gradient must be summed.
    """

    steps: tuple[LayerStep, ...]
    final: Moves
    gradient_axes: Mapping[str, tuple[str, ...]] = field(hash=False)

    @property
    def transitions(self) -> Iterator[tuple[str, Transition, Shape]]:
        """Every transition, each once, with the layer whose output it moves and its full shape (without the batch)."""
        seen: set[tuple[str, Moves]] = set()
        for step in self.steps:
            for name, shape, moves in zip(step.bound.inputs, step.bound.input_shapes, step.entry, strict=True):
                if (name, moves) not in seen:
                    seen.add((name, moves))
                    yield from ((name, move, shape) for move in moves)
            yield from ((step.bound.layer.name, move, step.bound.output_shape) for move in step.exit)
        last = self.steps[-1].bound
        yield from ((last.layer.name, move, last.output_shape) for move in self.final)


def build_flow(spec: ModelSpec, layout: Layout) -> Flow:
    """Works out the collectives of one step.

    Raises:
        LayoutError: The layout does not cover the spec, or asks for a cut that no rule above covers.
    """
    layout.check(spec)
    placed: dict[str, tuple[Placement, ...]] = {INPUT: layout.batch}
    has_gradient = {INPUT: False}
    steps: list[LayerStep] = []
    gradient_axes: dict[str, tuple[str, ...]] = {}
    for bound in spec.bound:
        layer = bound.layer
        entry: list[list[Transition]] = [[] for _ in bound.inputs]
        arrived: list[list[Placement]] = [[] for _ in bound.inputs]
        exits: list[Transition] = []
        output: list[Placement] = []
        for i, axis in enumerate(layout.mesh.axes):
            cut = _cut_of(bound, layout, i)
            sources = [placed[name][i] for name in bound.inputs]
            wanted, partial = _wanted_inputs(bound, cut, sources, layout.batch[i])
            for position, (name, source, target) in enumerate(zip(bound.inputs, sources, wanted, strict=True)):
                move = transition(axis.name, source, target, gradient_is_partial=partial)
                if move and not has_gradient[name]:
                    move = replace(move, backward=IDENTITY)  # no parameter lies before it, so no gradient is asked for
                if move and (move.forward, move.backward) != (IDENTITY, IDENTITY):
                    entry[position].append(move)
                arrived[position].append(target)
            after = wanted[0]
            if _is_partial(bound, cut):
                after = _wanted_after(spec, layout, bound, i)
                exits.append(_present(transition(axis.name, Partial(), after, gradient_is_partial=False)))
            elif cut == COLUMN:
                after = FEATURES
            _check_bias(bound, layout, i, cut, after)
            output.append(after)
        for parameter in layer.parameters():
            gradient_axes[parameter.name] = tuple(
                axis.name
                for i, axis in enumerate(layout.mesh.axes)
                if layout.parameters[parameter.name][i] == Replicate() and output[i] != Replicate()
            )
        has_gradient[layer.name] = bool(layer.parameters()) or any(has_gradient[name] for name in bound.inputs)
        placed[layer.name] = tuple(output)
        arrivals = tuple(tuple(placements) for placements in arrived)
        steps.append(LayerStep(bound, tuple(map(tuple, entry)), tuple(exits), arrivals, tuple(output)))
    final = (
        transition(axis.name, steps[-1].placements[i], layout.batch[i], gradient_is_partial=False)
        for i, axis in enumerate(layout.mesh.axes)
    )
    return Flow(tuple(steps), tuple(move for move in final if move), gradient_axes)


def _cut_of(bound: BoundLayer, layout: Layout, axis: int) -> Placement:
    """Returns the placement of the layer's weight along one axis, Replicate for a layer that has none."""
    parameters = bound.layer.parameters()
    if not parameters:
        return Replicate()
    cut = layout.parameters[parameters[0].name][axis]
    fits = (
        cut == Replicate()
        or (isinstance(bound.layer, Linear) and cut in (COLUMN, ROW))
        or (isinstance(bound.layer, Embedding) and cut == COLUMN)
    )
    if fits:
        return cut
    raise LayoutError(
        f"Cannot run layer '{bound.layer.name}' ({type(bound.layer).__name__}) with its weight placed {cut} over axis "
        f"'{layout.mesh.axes[axis].name}'.",
        allowed="Replicate for every layer, Shard(0) and Shard(1) for Linear, Shard(0) for Embedding",
        remedy="Choose another sharder, or sharder=data_parallel.",
    )


def _is_partial(bound: BoundLayer, cut: Placement) -> bool:
    """Returns whether a layer with its weight cut so gives but a term of its output."""
    return cut == ROW or (cut == COLUMN and isinstance(bound.layer, Embedding))


def _wanted_inputs(
    bound: BoundLayer, cut: Placement, sources: list[Placement], batch: Placement
) -> tuple[list[Placement], bool]:
    """Returns the placement that a layer asks of each input, and whether its inputs' gradient is then partial."""
    if cut == COLUMN:
        return [Replicate()], not _is_partial(bound, cut)
    if cut == ROW:
        return [FEATURES], False
    if bound.layer.works_on_parts and sources[0] == FEATURES:
        # Inputs with the features' dim come cut as the first does; others (token ids) belong to the whole batch.
        rank = len(bound.input_shapes[0])
        return [FEATURES if len(shape) == rank else Replicate() for shape in bound.input_shapes], False
    return [batch for _ in sources], False


def _wanted_after(spec: ModelSpec, layout: Layout, bound: BoundLayer, axis: int) -> Placement:
    """Returns the placement that all takers of a partial sum ask for, looking past layers that work on parts."""
    wanted: set[Placement] = set()
    for taker in spec.consumers[bound.layer.name]:
        cut = _cut_of(taker, layout, axis)
        if cut == ROW:
            wanted.add(FEATURES)
        elif cut == COLUMN:
            wanted.add(Replicate())
        elif taker.layer.works_on_parts:
            wanted.add(_wanted_after(spec, layout, taker, axis))
        else:
            wanted.add(layout.batch[axis])
    return wanted.pop() if len(wanted) == 1 else layout.batch[axis]


def _check_bias(bound: BoundLayer, layout: Layout, axis: int, cut: Placement, output: Placement) -> None:
    """Checks that a linear layer's bias can be added where the output lies."""
    if not isinstance(bound.layer, Linear) or cut == Replicate():
        return
    bias = bound.layer.parameters()[1].name
    wanted: Placement = Shard(0) if output == FEATURES else Replicate()
    received = layout.parameters[bias][axis]
    if received != wanted:
        raise LayoutError(
            f"'{bias}' must lie as the output of its layer does over axis '{layout.mesh.axes[axis].name}'.",
            received=received,
            allowed=wanted,
        )


def _present(move: Transition | None) -> Transition:
    assert move is not None, "a partial sum always has to be combined"
    return move
