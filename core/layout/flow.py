"""From a spec and a layout to the collectives between the layers: the part of a step that every backend shares.

Along one axis an activation is replicated, cut along the batch (`Shard(0)`) or cut along its last dim (`Shard(-1)`).
What a layer asks of its input follows from the placement of its weight:

- replicated weight: any whole sample will do, so the input stays as the batch lies;
- linear weight cut by outputs, `Shard(0)` (column parallel): the whole batch and all features; gives `Shard(-1)`;
- linear weight cut by inputs, `Shard(1)` (row parallel): the whole batch and its own features; gives a partial sum,
  which goes straight to what the next layer asks for.

When the axis also splits the batch, this gathers the activations on entry and scatters them on exit: data-parallel
convolutions with tensor-parallel linear layers on the same cards. When it does not, it is Megatron's pairing.

Source: Krizhevsky 2014, arXiv:1404.5997; Shoeybi et al. 2019, arXiv:1909.08053, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.errors import LayoutError
from core.layout.layout import Layout
from core.layout.placement import Partial, Placement, Replicate, Shard
from core.layout.transition import IDENTITY, Transition, transition
from core.spec import BoundLayer, Linear, ModelSpec, ReLU

COLUMN = Shard(0)
ROW = Shard(1)


@dataclass(frozen=True)
class LayerStep:
    """One layer with what happens to its activation before and after.

    Attributes:
        bound: The layer and its full shapes.
        entry: Transitions before the layer.
        exit: Transitions of the layer's partial sums, before its bias is added.
        placements: Where the layer's output lies, after `exit`, one placement an axis.
    """

    bound: BoundLayer
    entry: tuple[Transition, ...]
    exit: tuple[Transition, ...]
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
    final: tuple[Transition, ...]
    gradient_axes: Mapping[str, tuple[str, ...]] = field(hash=False)

    @property
    def transitions(self) -> tuple[tuple[Transition, tuple[int, ...]], ...]:
        """Every transition with the full shape (without the batch dim) of the activation that it moves."""
        pairs = [
            (move, shape)
            for step in self.steps
            for moves, shape in ((step.entry, step.bound.input_shape), (step.exit, step.bound.output_shape))
            for move in moves
        ]
        return (*pairs, *((move, self.steps[-1].bound.output_shape) for move in self.final))


def build_flow(spec: ModelSpec, layout: Layout) -> Flow:
    """Works out the collectives of one step.

    Raises:
        LayoutError: The layout does not cover the spec, or asks for a cut that no rule above covers.
    """
    layout.check(spec)
    current = list(layout.batch)
    steps: list[LayerStep] = []
    gradient_axes: dict[str, tuple[str, ...]] = {}
    for index, bound in enumerate(spec.bound):
        entry: list[Transition] = []
        exits: list[Transition] = []
        partial_gradients: dict[str, list[str]] = {p.name: [] for p in bound.layer.parameters()}
        for i, axis in enumerate(layout.mesh.axes):
            if isinstance(bound.layer, ReLU):
                continue
            cut = _cut_of(bound, layout, i)
            wanted, partial = _wanted_input(cut, layout.batch[i])
            move = transition(axis.name, current[i], wanted, gradient_is_partial=partial)
            if move and not gradient_axes:
                move = replace(move, backward=IDENTITY)  # no parameter lies before it, so no gradient is asked for
            entry += [move] if move and (move.forward, move.backward) != (IDENTITY, IDENTITY) else []
            current[i] = wanted
            if cut == COLUMN:
                current[i] = Shard(-1)
            elif cut == ROW:
                current[i] = _wanted_after(spec, layout, index, i)
                exits.append(_present(transition(axis.name, Partial(), current[i], gradient_is_partial=False)))
            _check_bias(bound, layout, i, cut, current[i])
            for name, axes in partial_gradients.items():
                if layout.parameters[name][i] == Replicate() and current[i] != Replicate():
                    axes.append(axis.name)
        gradient_axes |= {name: tuple(axes) for name, axes in partial_gradients.items()}
        steps.append(LayerStep(bound, tuple(entry), tuple(exits), tuple(current)))
    final = (
        transition(axis.name, current[i], layout.batch[i], gradient_is_partial=False)
        for i, axis in enumerate(layout.mesh.axes)
    )
    return Flow(tuple(steps), tuple(move for move in final if move), gradient_axes)


def _cut_of(bound: BoundLayer, layout: Layout, axis: int) -> Placement:
    """Returns the placement of the layer's weight along one axis, Replicate for a layer that has none."""
    parameters = bound.layer.parameters()
    if not parameters:
        return Replicate()
    cut = layout.parameters[parameters[0].name][axis]
    if cut == Replicate() or (isinstance(bound.layer, Linear) and cut in (COLUMN, ROW)):
        return cut
    raise LayoutError(
        f"Cannot run layer '{bound.layer.name}' ({type(bound.layer).__name__}) with its weight placed {cut} over axis "
        f"'{layout.mesh.axes[axis].name}'.",
        allowed="Replicate for every layer, Shard(0) and Shard(1) for Linear",
        remedy="Choose another sharder, or sharder=data_parallel.",
    )


def _wanted_input(cut: Placement, batch: Placement) -> tuple[Placement, bool]:
    """Returns the placement that a layer asks of its input, and whether its input's gradient is then partial."""
    if cut == COLUMN:
        return Replicate(), True
    if cut == ROW:
        return Shard(-1), False
    return batch, False


def _wanted_after(spec: ModelSpec, layout: Layout, index: int, axis: int) -> Placement:
    """Returns the placement that the layers after layer `index` ask for, looking past element-wise ones."""
    for bound in spec.bound[index + 1 :]:
        if not isinstance(bound.layer, ReLU):
            return _wanted_input(_cut_of(bound, layout, axis), layout.batch[axis])[0]
    return layout.batch[axis]


def _check_bias(bound: BoundLayer, layout: Layout, axis: int, cut: Placement, output: Placement) -> None:
    """Checks that a linear layer's bias can be added where the output lies."""
    if cut not in (COLUMN, ROW):
        return
    bias = bound.layer.parameters()[1].name
    wanted: Placement = Shard(0) if output == Shard(-1) else Replicate()
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
