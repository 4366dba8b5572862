from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

from core.config.user_model import with_notes  # noqa: E402
from core.contracts import Adam, StepSpec  # noqa: E402
from core.errors import AnycardError, ConfigError, LayoutError, SpecError  # noqa: E402
from core.layout import (  # noqa: E402
    Axis,
    Layout,
    Mesh,
    Replicate,
    build_flow,
)
from core.models.native import Native, NativeOptions  # noqa: E402
from core.planning.memory import card_memory  # noqa: E402
from core.sharders.data_parallel import DataParallel  # noqa: E402
from core.sharders.dp_tp import DpTp, DpTpOptions  # noqa: E402
from core.sharders.hybrid import Hybrid  # noqa: E402
from core.sharders.tensor_parallel import TensorParallel  # noqa: E402
from core.sharders.zero1 import Zero1  # noqa: E402
from core.spec import SampleSpec, initial_tensors  # noqa: E402
from tests.native.described import described  # noqa: E402
from tests.native.user_models import Everything  # noqa: E402


def test_tensors_have_the_modules_names_formats_and_seeded_values(tmp_path: Path) -> None:
    spec = described(tmp_path, "Everything")
    torch.manual_seed(0)
    module = Everything()
    state = {name: tensor.numpy() for name, tensor in module.state_dict().items() if not name.startswith("twin.")}
    initial = initial_tensors((*spec.parameters, *spec.buffers), seed=5)
    assert initial.keys() == state.keys(), "shared ones once, what is not persistent not at all"
    for name, array in initial.items():
        np.testing.assert_array_equal(array, state[name])
        assert array.dtype == state[name].dtype
    assert [one.name for one in spec.parameters] == [
        name for name, one in module.named_parameters() if one.requires_grad
    ]
    (layer,) = spec.layers
    assert [one.name for one in layer.frozen] == ["scale"]
    assert {one.name: one.dtype for one in layer.moving}["inner.1.num_batches_tracked"] == "int64"
    assert layer.batch_norms == ("inner.1",)
    assert layer.random_parts == ("inner.3",)
    assert spec.flops == 2 * (6 * 6 + 6 * 6 + 6 * 3)


def test_memory_counts_every_format(tmp_path: Path) -> None:
    spec = described(tmp_path, "Everything")
    layout = DataParallel(None).plan(spec, 2)
    memory = card_memory(spec, layout, build_flow(spec, layout), StepSpec(Adam()))
    floats = sum(4 * p.numel() for p in Everything().parameters() if p.requires_grad)
    assert memory.weights == floats
    assert memory.buffers == 4 * (6 + 6 + 6) + 8 + 8 + 8 * 6


def test_token_ids_are_taken(tmp_path: Path) -> None:
    assert described(tmp_path, "Tokens", SampleSpec((8,), 4, vocabulary=64)).num_parameters == 64 * 8 + 8 * 4 + 4


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("absent:Model", {}, ("cannot be imported", "No module named 'absent'")),
        ("Absent", {}, ("cannot be imported", "no attribute 'Absent'")),
        ("no_class", {}, ("is no class of modules", "torch.nn.Module")),
        (
            "Stateless",
            {"fault": "constructor"},
            ("cannot be made", "KeyError", "user_models.py"),
        ),
        ("Stateless", {"fold": 1}, ("cannot be made", "'fold'")),
        ("Stateless", {"fault": "shape"}, ("one logit a class", "(2, 4)", "(2, 3)")),
        ("Stateless", {"fault": "forward"}, ("fails on samples", "ZeroDivisionError", "in forward")),
        ("Stateless", {"fault": "nothing to train"}, ("nothing to train",)),
        ("Stateless", {"fault": "half"}, ("'fc.weight'", "float16", "float32")),
        ("Stateless", {"fault": "lazy"}, ("'more.weight'", "no shape yet")),
        ("Broken", {"fault": "none"}, ("no checkpoint here holds", "_extra_state")),
    ],
)
def test_an_unfit_class_is_an_error_that_says_why(tmp_path: Path, name: str, arguments: dict, parts: tuple) -> None:
    with pytest.raises(SpecError) as caught:
        described(tmp_path, name, **arguments)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


@pytest.mark.parametrize("sharder", [Hybrid(None), TensorParallel(None), DpTp(DpTpOptions())])
def test_sharders_that_cut_parameters_are_refused(tmp_path: Path, sharder) -> None:
    with pytest.raises(LayoutError, match="sharder=data_parallel or sharder=zero1"):
        sharder.plan(described(tmp_path, "Everything"), 2)


def test_a_strangers_layout_that_does_not_split_the_batch_is_refused(tmp_path: Path) -> None:
    spec = described(tmp_path, "Everything")
    whole = {one.name: (Replicate(),) for one in spec.parameters}
    with pytest.raises(LayoutError, match="whole on each of them"):
        with_notes(spec, Layout("strange", Mesh((Axis("tp", 2),)), (Replicate(),), whole), None)


def test_what_several_cards_change_is_noted(tmp_path: Path) -> None:
    spec = described(tmp_path, "Everything")
    for sharder in (DataParallel(None), Zero1(None)):
        notes = " ".join(with_notes(spec, sharder.plan(spec, 2), None).notes)
        for part in ("'inner.1'", "one card's rows alone", "averaged over the cards", "'inner.3'"):
            assert part in notes
        assert with_notes(spec, sharder.plan(spec, 1), None).notes == ()


def test_ordered_parts_need_a_class_without_buffers(tmp_path: Path) -> None:
    spec = described(tmp_path / "one", "Everything")
    with pytest.raises(ConfigError, match=r"batch\.shards=2"):
        with_notes(spec, DataParallel(None).plan(spec, 1), 2)
    plain = described(tmp_path / "two", "Plain", SampleSpec((1, 28, 28), 10))
    with_notes(plain, DataParallel(None).plan(plain, 1), 2)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"target": {"torch_npu": "a/b"}}, "names no class"),
        ({"target": {"torch_npu": "a:B"}, "head": "fc"}, "needs 'model.head'"),
        ({"target": {"torch_npu": "a:B"}, "weights": "w", "replace_head": True}, "needs 'model.head'"),
    ],
)
def test_wrong_options_are_named(options: dict, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        NativeOptions(**options)


def test_a_backend_without_a_class_is_told_the_key() -> None:
    with pytest.raises(AnycardError, match=r"Set model\.target\.torch_npu=package\.module:Class") as caught:
        Native(NativeOptions(target={"mindspore": "a:B", "torch_npu": None})).user_class("torch_npu")
    assert "classes for mindspore" in str(caught.value)
