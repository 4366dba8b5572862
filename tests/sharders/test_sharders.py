from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import ConfigError, LayoutError
from core.layout import Replicate, Shard, build_flow, gradient_buckets
from core.models.bert import Bert, BertOptions
from core.models.lenet5 import LeNet5
from core.sharders.data_parallel import DataParallel
from core.sharders.dp_tp import DpTp, DpTpOptions
from core.sharders.hybrid import Hybrid
from core.sharders.tensor_parallel import TensorParallel
from core.sharders.zero1 import Zero1
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


BERT = Bert(BertOptions(heads=4)).spec(SampleSpec((8,), 3, 64))


def test_the_encoder_is_cut_by_heads_columns_then_rows_and_ids() -> None:
    """Megatron's cuts, section 3 of arXiv:1909.08053."""
    placed = {name: cut for name, (cut,) in TensorParallel(None).plan(BERT, 4).parameters.items()}
    layer = "bert.encoder.layer.0"
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "intermediate.dense"):
        assert placed[f"{layer}.{name}.weight"] == placed[f"{layer}.{name}.bias"] == Shard(0), name
    for name in ("attention.output.dense", "output.dense"):
        assert placed[f"{layer}.{name}.weight"] == Shard(1), name
        assert placed[f"{layer}.{name}.bias"] == Replicate(), name
    assert placed["bert.embeddings.word_embeddings.weight"] == Shard(0)
    assert placed["bert.embeddings.position_embeddings.weight"] == Replicate()
    assert placed["bert.pooler.dense.weight"] == Shard(0)
    assert placed["classifier.weight"] == Shard(1)


def test_the_encoder_moves_two_sums_forward_and_two_backward_a_layer() -> None:
    flow = build_flow(BERT, TensorParallel(None).plan(BERT, 4))
    layer = "bert.encoder.layer.1"
    moves = [(name, move.forward, move.backward) for name, move, _ in flow.transitions]
    own = [move for move in moves if move[0].startswith(layer) or move[0] == "bert.encoder.layer.0.output.LayerNorm"]
    assert own == [
        ("bert.encoder.layer.0.output.LayerNorm", "identity", "all_reduce"),  # query, key and value share it
        (f"{layer}.attention.output.dense", "all_reduce", "identity"),
        (f"{layer}.attention.output.LayerNorm", "identity", "all_reduce"),
        (f"{layer}.output.dense", "all_reduce", "identity"),
    ]
    assert moves[0] == ("bert.embeddings.word_embeddings", "all_reduce", "identity")


def test_heads_that_do_not_divide_are_an_error_that_says_what_would() -> None:
    with pytest.raises(LayoutError, match=r"attention .*its 4 heads over 8 cards.*cards=1\|2\|4 with") as error:
        TensorParallel(None).plan(BERT, 8)
    assert "bert.encoder.layer.0.attention.self.attention" in str(error.value)


def test_ids_that_do_not_divide_leave_the_embedding_whole_and_say_so() -> None:
    spec = Bert(BertOptions(heads=4)).spec(SampleSpec((8,), 3, 30))
    layout = TensorParallel(None).plan(spec, 4)
    assert layout.parameters["bert.embeddings.word_embeddings.weight"] == (Replicate(),)
    (note,) = layout.notes
    assert "30 ids do not divide by 4" in note
    assert TensorParallel(None).plan(spec, 2).notes == ()


def test_zero1_shares_out_padded_buckets() -> None:
    layout = Zero1(None).plan(LENET5, 4)
    assert layout.state_axes == ("dp",)
    flow = build_flow(LENET5, layout)
    (bucket,) = gradient_buckets(LENET5, layout, flow)
    assert (bucket.num_elements, bucket.num_pieces) == (61708, 4), "61,706 gradients and two zeros"
    assert len(gradient_buckets(LENET5, layout, flow, bucket_mb=0.1)) > 1


def test_state_cannot_be_shared_over_an_axis_that_cuts_parameters() -> None:
    hybrid = Hybrid(None).plan(LENET5, 2)
    with pytest.raises(LayoutError, match="with every parameter replicated"):
        replace(hybrid, state_axes=("dp",)).check(LENET5)
