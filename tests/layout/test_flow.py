from __future__ import annotations

import pytest

from core.errors import LayoutError
from core.layout import Axis, Layout, Mesh, Partial, Replicate, Shard, StepSize, build_flow, step_payloads, wire_bytes
from core.layout.traffic import total_wire_bytes
from core.layout.transition import transition
from core.models.lenet5 import LeNet5
from core.sharders.data_parallel import DataParallel
from core.sharders.hybrid import Hybrid
from core.sharders.tensor_parallel import TensorParallel
from core.spec import Linear, ModelSpec, ReLU, SampleSpec

LENET5 = LeNet5(None).spec(SampleSpec((1, 28, 28), 10))


def collectives(sharder: type, cards: int = 4) -> list[tuple[str, str, str, int]]:
    flow = build_flow(LENET5, sharder(None).plan(LENET5, cards))
    return [
        (step.bound.layer.name, move.forward, move.backward, move.dim)
        for step in flow.steps
        for move in (*step.entry[0], *step.exit)
    ] + [("end", move.forward, move.backward, move.dim) for move in flow.final]


def test_data_parallel_moves_no_activation() -> None:
    assert collectives(DataParallel) == []


def test_tensor_parallel_is_megatrons_pairing() -> None:
    assert collectives(TensorParallel) == [
        ("fc1", "identity", "all_reduce", 0),
        ("fc2", "reduce_scatter", "all_gather", -1),
        ("fc3", "all_reduce", "identity", 0),
    ]


def test_hybrid_gathers_on_entry_and_scatters_on_exit() -> None:
    assert collectives(Hybrid) == [
        ("fc1", "all_gather", "reduce_scatter", 0),
        ("fc2", "reduce_scatter", "all_gather", -1),
        ("fc3", "reduce_scatter", "all_gather", 0),
    ]


def test_only_what_sees_a_part_of_the_batch_is_summed() -> None:
    hybrid = build_flow(LENET5, Hybrid(None).plan(LENET5, 4)).gradient_axes
    assert {name for name, axes in hybrid.items() if axes} == {
        "conv1.weight",
        "conv1.bias",
        "conv2.weight",
        "conv2.bias",
        "fc3.bias",
    }
    tensor = build_flow(LENET5, TensorParallel(None).plan(LENET5, 4)).gradient_axes
    assert not any(tensor.values())
    data = build_flow(LENET5, DataParallel(None).plan(LENET5, 4)).gradient_axes
    assert all(axes == ("dp",) for axes in data.values())


@pytest.mark.parametrize(
    ("source", "target", "partial", "forward", "backward"),
    [
        (Replicate(), Replicate(), True, "identity", "all_reduce"),
        (Shard(0), Replicate(), True, "all_gather", "reduce_scatter"),
        (Shard(-1), Replicate(), False, "all_gather", "slice"),
        (Partial(), Replicate(), False, "all_reduce", "identity"),
        (Partial(), Replicate(), True, "all_reduce", "all_reduce"),
        (Replicate(), Shard(-1), False, "slice", "all_gather"),
        (Partial(), Shard(0), False, "reduce_scatter", "all_gather"),
        (Shard(0), Shard(-1), False, "all_to_all", "all_to_all"),
    ],
)
def test_every_transition_has_its_adjoint(source, target, partial, forward, backward) -> None:
    move = transition("tp", source, target, gradient_is_partial=partial)
    assert move is not None
    assert (move.forward, move.backward) == (forward, backward)


def test_nothing_moves_between_equal_placements() -> None:
    assert transition("tp", Shard(0), Shard(0), gradient_is_partial=False) is None
    assert transition("tp", Replicate(), Replicate(), gradient_is_partial=False) is None


def test_a_cut_convolution_is_refused_by_name() -> None:
    layout = DataParallel(None).plan(LENET5, 2)
    parameters = {**layout.parameters, "conv2.weight": (Shard(0),)}
    with pytest.raises(LayoutError, match=r"layer 'conv2' \(Conv2d\)"):
        build_flow(LENET5, Layout("test", layout.mesh, layout.batch, parameters))


def test_a_bias_must_lie_as_its_layers_output() -> None:
    spec = ModelSpec("m", SampleSpec((4,), 2), (Linear("a", 4, 4), ReLU("r"), Linear("b", 4, 2)))
    layout = Layout(
        "test",
        Mesh((Axis("tp", 2),)),
        (Replicate(),),
        {"a.weight": (Shard(0),), "a.bias": (Replicate(),), "b.weight": (Shard(1),), "b.bias": (Replicate(),)},
    )
    with pytest.raises(LayoutError, match=r"'a\.bias' must lie as the output"):
        build_flow(spec, layout)


def test_wire_bytes_of_four_cards() -> None:
    assert wire_bytes("all_reduce", 4, 1000) == 1500
    assert wire_bytes("all_gather", 4, 1000) == 750
    assert wire_bytes("reduce_scatter", 4, 1000) == 750
    assert wire_bytes("all_to_all", 4, 1000) == 187.5


def test_lenet5_hybrid_against_data_parallel() -> None:
    """Data parallel moves 61,706 gradients; hybrid 2,582 and 494 features a sample, there and back."""

    def sent(sharder: type, batch: int) -> float:
        layout = sharder(None).plan(LENET5, 4)
        return total_wire_bytes(step_payloads(LENET5, layout, build_flow(LENET5, layout), StepSize(batch)))

    assert sent(DataParallel, 256) == 1.5 * 4 * 61706
    assert sent(Hybrid, 256) == 1.5 * 4 * (2582 + 494 * 256)
    assert 2 < sent(Hybrid, 256) / sent(DataParallel, 256) < 2.2
