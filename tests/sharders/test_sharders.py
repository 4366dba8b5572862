from __future__ import annotations

import pytest

from core.errors import ConfigError, LayoutError
from core.layout import Replicate, Shard, build_flow
from core.models.lenet5 import LeNet5
from core.sharders.data_parallel import DataParallel
from core.sharders.dp_tp import DpTp, DpTpOptions
from core.sharders.hybrid import Hybrid
from core.sharders.tensor_parallel import TensorParallel
from core.spec import Linear, ModelSpec, ReLU, SampleSpec

LENET5 = LeNet5(None).spec(SampleSpec((1, 28, 28), 10))


@pytest.mark.parametrize("sharder", [TensorParallel, Hybrid])
def test_every_linear_weight_is_quartered_on_four_cards(sharder) -> None:
    layout = sharder(None).plan(LENET5, 4)
    local = {p.name: layout.local_shape(p) for p in LENET5.parameters if len(p.shape) == 2}
    assert local == {"fc1.weight": (30, 400), "fc2.weight": (84, 30), "fc3.weight": (10, 21)}


@pytest.mark.parametrize("sharder", [DataParallel, TensorParallel, Hybrid])
@pytest.mark.parametrize("cards", [1, 2, 3, 4, 6, 12])
def test_every_layout_flows(sharder, cards) -> None:
    layout = sharder(None).plan(LENET5, cards)
    assert layout.mesh.num_cards == cards
    build_flow(LENET5, layout)


def test_tensor_parallel_shows_all_cards_the_same_batch() -> None:
    assert TensorParallel(None).plan(LENET5, 4).num_batch_shards == 1
    assert Hybrid(None).plan(LENET5, 4).num_batch_shards == 4


@pytest.mark.parametrize("sharder", [TensorParallel, Hybrid])
def test_what_does_not_divide_names_the_layer_and_what_would_work(sharder) -> None:
    with pytest.raises(LayoutError) as caught:
        sharder(None).plan(LENET5, 7)
    text = str(caught.value)
    assert "'fc1' by its 120 outputs over 7 cards" in text
    assert "cards=1|2|3|4|6|12" in text
    assert "data_parallel" in text


def test_data_parallel_takes_any_number_of_cards() -> None:
    layout = DataParallel(None).plan(LENET5, 7)
    assert set(layout.parameters.values()) == {(Replicate(),)}


def test_an_even_number_of_linear_layers_is_paired_whole() -> None:
    spec = ModelSpec("m", SampleSpec((8,), 3), (Linear("a", 8, 4), ReLU("r"), Linear("b", 4, 3)))
    placed = TensorParallel(None).plan(spec, 4).parameters
    assert placed["a.weight"] == (Shard(0),)
    assert placed["b.weight"] == (Shard(1),)
    assert placed["b.bias"] == (Replicate(),)


def test_a_lone_linear_layer_is_cut_by_its_inputs() -> None:
    spec = ModelSpec("m", SampleSpec((8,), 3), (Linear("a", 8, 3),))
    layout = Hybrid(None).plan(spec, 4)
    assert layout.parameters["a.weight"] == (Shard(1),)
    (move, *_) = build_flow(spec, layout).steps[0].entry[0]
    assert (move.forward, move.dim, move.other_dim) == ("all_to_all", 0, -1)


def test_dp_tp_has_two_axes_and_cuts_linear_layers_over_one() -> None:
    layout = DpTp(DpTpOptions(tp=2)).plan(LENET5, 6)
    assert str(layout.mesh) == "dp=3 x tp=2"
    assert layout.num_batch_shards == 3
    assert [layout.batch_shard(rank) for rank in range(6)] == [0, 0, 1, 1, 2, 2]
    assert layout.parameters["fc1.weight"] == (Replicate(), Shard(0))
    gradients = build_flow(LENET5, layout).gradient_axes
    assert all(axes == ("dp",) for axes in gradients.values())


def test_dp_tp_needs_whole_groups() -> None:
    with pytest.raises(LayoutError, match=r"Cannot arrange 6 cards in groups of sharder\.tp=4"):
        DpTp(DpTpOptions(tp=4)).plan(LENET5, 6)
    with pytest.raises(ConfigError, match=r"sharder\.tp"):
        DpTpOptions(tp=0)
