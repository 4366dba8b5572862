from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

from core.contracts import SGD, Adam, AdamW, Normalize, Resize  # noqa: E402
from core.contracts.engine import PADDING_LABEL  # noqa: E402
from core.errors import SpecError  # noqa: E402
from core.models.lenet5 import LeNet5  # noqa: E402
from core.spec import Flatten, Layer, Linear, ModelSpec, SampleSpec, initial_tensors  # noqa: E402
from plugins.torch_npu_backend.transforms import Transforms  # noqa: E402
from tests.torch_npu_backend.single_card import build_engine  # noqa: E402
from tests.torch_npu_backend.windows import of, window  # noqa: E402

LENET5 = LeNet5(None).spec(SampleSpec((1, 28, 28), 10))
LINEAR = ModelSpec("linear", SampleSpec((5,), 3), (Linear("fc", 5, 3),))


@pytest.mark.parametrize("rule", [Adam(lr=0.05, weight_decay=0.01), AdamW(lr=0.05), SGD(lr=0.1, nesterov=True)])
def test_a_step_is_the_contracts_update_of_the_softmax_gradient(rule) -> None:
    """One linear layer, whose gradient is written down here; float64 against the engine's float32."""
    engine = build_engine(LINEAR, rule)
    batches = window(4, 6, (5,), 3)
    values = {name: array.astype(np.float64) for name, array in initial_tensors(LINEAR.parameters, 0).items()}
    slots = {name: {slot: np.zeros_like(array) for slot in rule.slots} for name, array in values.items()}
    result = engine.train(batches, np.full(4, rule.lr))
    for step in range(4):
        x, y = batches.samples[step].astype(np.float64), batches.labels[step]
        logits = x @ values["fc.weight"].T + values["fc.bias"]
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        assert abs(result.losses[step] + np.log(p[np.arange(6), y]).mean()) < 1e-5
        assert result.correct[step] == (logits.argmax(1) == y).sum()
        p[np.arange(6), y] -= 1
        p /= 6
        for name, gradient in (("fc.weight", p.T @ x), ("fc.bias", p.sum(0))):
            rule.update(values[name], gradient, slots[name], step + 1, rule.lr)
    state = engine.gather()
    assert state.num_updates == 4
    for name, array in values.items():
        np.testing.assert_allclose(state.parameters[name], array, rtol=1e-4, atol=1e-6)
        for slot in rule.slots:
            np.testing.assert_allclose(state.slots[slot][name], slots[name][slot], rtol=1e-4, atol=1e-7)


def test_padding_counts_for_nothing() -> None:
    whole, padded = build_engine(LENET5, SGD()), build_engine(LENET5, SGD())
    batch = window(1, 8, (1, 28, 28), 10)
    samples = np.concatenate([batch.samples, np.full((1, 3, 1, 28, 28), 9, np.float32)], axis=1)
    labels = np.concatenate([batch.labels, np.full((1, 3), PADDING_LABEL)], axis=1)
    one = whole.train(batch, np.full(1, 0.1))
    two = padded.train(of(samples, labels, 8), np.full(1, 0.1))
    assert abs(one.losses[0] - two.losses[0]) < 1e-6
    assert one.correct[0] == two.correct[0]
    for name, array in whole.gather().parameters.items():
        np.testing.assert_allclose(array, padded.gather().parameters[name], atol=1e-6)
    totals = padded.evaluate(of(samples, labels, 8))
    assert totals.count == 8


def test_both_lowerings_of_lenet5_agree() -> None:
    """The CPU's small convolutions and torch's own layers, which accelerators run: the same losses and updates."""
    batches = window(5, 16, (1, 28, 28), 10)
    small, usual = build_engine(LENET5, SGD()), build_engine(LENET5, SGD(), device="npu")
    kinds = [{type(module).__name__ for module in engine._model.modules()} for engine in (small, usual)]
    assert "SmallConv2d" in kinds[0]
    assert "MaxPool2d" in kinds[1]
    one, two = (engine.train(batches, np.full(5, 0.05)) for engine in (small, usual))
    np.testing.assert_allclose(one.losses, two.losses, rtol=1e-5)
    for name, array in small.gather().parameters.items():
        np.testing.assert_allclose(array, usual.gather().parameters[name], rtol=1e-3, atol=1e-6)


def test_a_batch_that_is_not_finite_is_skipped_when_asked() -> None:
    engine = build_engine(LINEAR, Adam(), skip_non_finite=True)
    batches = window(3, 4, (5,), 3)
    batches.samples[1, 0, 0] = np.inf
    before = engine.gather().parameters
    result = engine.train(batches, np.full(3, 1e-2))
    assert result.skipped == 1
    assert engine.gather().num_updates == 2
    assert all(np.isfinite(array).all() for array in engine.gather().parameters.values())
    assert not np.array_equal(before["fc.weight"], engine.gather().parameters["fc.weight"])


def test_what_is_gathered_can_be_loaded_again() -> None:
    engine, other = build_engine(LENET5, Adam()), build_engine(LENET5, Adam())
    engine.train(window(3, 8, (1, 28, 28), 10), np.full(3, 1e-3))
    state = engine.gather()
    other.load(state)
    batches = window(2, 8, (1, 28, 28), 10, seed=1)
    assert np.array_equal(engine.train(batches, np.full(2, 1e-3)).losses, other.train(batches, np.full(2, 1e-3)).losses)
    for name, array in engine.gather().parameters.items():
        assert np.array_equal(array, other.gather().parameters[name])


def test_a_gathered_state_is_a_copy() -> None:
    engine = build_engine(LINEAR, SGD())
    state = engine.gather()
    kept = state.parameters["fc.weight"].copy()
    engine.train(window(1, 4, (5,), 3), np.full(1, 1.0))
    assert np.array_equal(state.parameters["fc.weight"], kept)


@dataclass(frozen=True)
class Mystery(Layer):
    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


def test_a_layer_without_a_lowering_is_named() -> None:
    spec = ModelSpec("m", SampleSpec((3,), 3), (Flatten("f"), Mystery("strange")))
    with pytest.raises(SpecError, match=r"cannot lower layer 'strange'.*Mystery"):
        build_engine(spec, SGD())


@pytest.mark.parametrize("size", [(28, 28), (5, 3), (8, 8)])
def test_resizing_is_torchs_bilinear_interpolation(size) -> None:
    images = torch.randint(0, 17, (3, 2, 8, 8), dtype=torch.uint8)
    ours = Transforms((Resize(*size),))(images, None)
    theirs = torch.nn.functional.interpolate(images.float(), size, mode="bilinear", align_corners=False)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-5)


def test_normalizing_goes_by_channel() -> None:
    images = torch.randint(0, 256, (3, 2, 4, 4), dtype=torch.uint8)
    ours = Transforms((Normalize((10.0, 20.0), (2.0, 4.0)),))(images, None)
    torch.testing.assert_close(ours[:, 0], (images[:, 0].float() - 10) / 2)
    torch.testing.assert_close(ours[:, 1], (images[:, 1].float() - 20) / 4)


def test_four_parts_of_a_batch_equal_the_whole() -> None:
    """With SGD: Adam's first updates go by the gradient's sign, which may be all rounding."""
    batches = window(5, 16, (1, 28, 28), 10)
    whole, parts = build_engine(LENET5, SGD()), build_engine(LENET5, SGD(), accumulate=4)
    one, two = (engine.train(batches, np.full(5, 0.01)) for engine in (whole, parts))
    np.testing.assert_allclose(one.losses, two.losses, rtol=1e-5)
    assert np.array_equal(one.correct, two.correct)
    for name, array in whole.gather().parameters.items():
        np.testing.assert_allclose(array, parts.gather().parameters[name], atol=1e-5)


def test_clipping_is_torchs() -> None:
    batch = window(1, 8, (5,), 3)
    engine, free = build_engine(LINEAR, SGD(momentum=0.0), clip_norm=0.1), build_engine(LINEAR, SGD(momentum=0.0))
    start = engine.gather().parameters
    for one in (engine, free):
        one.train(batch, np.full(1, 1.0))
    steps = [{n: start[n] - one.gather().parameters[n] for n in start} for one in (engine, free)]
    tensors = [torch.nn.Parameter(torch.zeros(gradient.shape)) for gradient in steps[1].values()]
    for tensor, gradient in zip(tensors, steps[1].values(), strict=True):
        tensor.grad = torch.from_numpy(gradient.copy())
    assert torch.nn.utils.clip_grad_norm_(tensors, 0.1) > 0.1
    for tensor, clipped in zip(tensors, steps[0].values(), strict=True):
        np.testing.assert_allclose(clipped, tensor.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_label_smoothing_is_torchs_in_training_and_absent_in_evaluation() -> None:
    batch = window(1, 8, (5,), 3)
    engine, plain = build_engine(LINEAR, SGD(), label_smoothing=0.2), build_engine(LINEAR, SGD())
    values = engine.gather().parameters
    logits = torch.from_numpy(batch.samples[0] @ values["fc.weight"].T + values["fc.bias"])
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(batch.labels[0]), label_smoothing=0.2)
    assert abs(engine.evaluate(batch).loss_sum - plain.evaluate(batch).loss_sum) < 1e-6
    assert abs(engine.train(batch, np.full(1, 0.1)).losses[0] - float(expected)) < 1e-6
