"""The activations that are planned are about those that autograd saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.contracts import SGD, Precision, StepSpec
from core.layout import build_flow
from core.planning.activations import activation_bytes
from core.sharders.data_parallel import DataParallel
from core.sharders.tensor_parallel import TensorParallel
from tests.models.small import small_models

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

from tests.torch_npu_backend.single_card import build_engine  # noqa: E402
from tests.torch_npu_backend.windows import of  # noqa: E402

MODELS = small_models()
BATCH = 8


def saved_bytes(engine: Any) -> int:
    """Returns the bytes that autograd saves in one step, each storage once, without the parameters'."""
    sample, random = engine._request.spec.sample, np.random.default_rng(0)
    shape = (1, BATCH, *sample.shape)
    samples = (
        random.normal(size=shape).astype(np.float32)
        if sample.vocabulary is None
        else random.integers(1, sample.vocabulary, shape).astype(np.int32)
    )
    weights = {parameter.untyped_storage().data_ptr() for parameter in engine._parameters.values()}
    held = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            held[storage.data_ptr()] = storage  # kept, so that no other takes its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        engine.train(of(samples, random.integers(0, sample.num_classes, (1, BATCH)), BATCH), np.full(1, 0.1))
    return sum(storage.nbytes() for storage in held.values())


@pytest.mark.parametrize("precision", [Precision.fp32, Precision.amp_bf16])
@pytest.mark.parametrize("model", MODELS)
def test_autograd_saves_about_what_is_planned(model: str, precision: Precision) -> None:
    """Within a factor of 2; measured: 0.91 to 1.00, LeNet 0.73 (its pooling keeps indices of 8 bytes).

    The device steers the lowering away from the CPU's fused convolutions, which keep less.
    """
    engine = build_engine(MODELS[model], SGD(lr=0.1), device="npu", precision=precision)
    planned = activation_bytes(MODELS[model], engine._layout, engine._request.flow, engine._step, BATCH)
    ratio = planned / saved_bytes(engine)
    assert 0.5 < ratio < 2, ratio


def planned(model: str, sharder: type, cards: int, batch: int, **step: Any) -> int:
    spec = MODELS[model]
    layout = sharder(None).plan(spec, cards)
    return activation_bytes(spec, layout, build_flow(spec, layout), StepSpec(SGD(), **step), batch)


@pytest.mark.parametrize("model", MODELS)
def test_cards_and_accumulation_divide_them(model: str) -> None:
    whole = planned(model, DataParallel, 1, 64)
    assert planned(model, DataParallel, 4, 64) == whole / 4
    assert planned(model, DataParallel, 1, 64, accumulate=4) == whole / 4


def test_tensor_parallelism_cuts_what_lies_between_the_pairs() -> None:
    assert planned("bert", DataParallel, 4, 64) < planned("bert", TensorParallel, 4, 64)
    assert planned("bert", TensorParallel, 4, 64) < planned("bert", DataParallel, 1, 64)
