"""Layers against torch's own and against the core's definitions, on one card."""

from __future__ import annotations

import numpy as np
import pytest

from core.contracts import SGD, LossScale, Precision, TrainingState, Window
from core.randomness import keep_mask
from core.randomness.counter import dropout_key
from core.spec import AvgPool2d, BatchNorm2d, Conv2d, Dropout, Flatten, GlobalAvgPool2d, Linear, ModelSpec, SampleSpec

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

from plugins.torch_npu_backend import dropout  # noqa: E402
from plugins.torch_npu_backend.step_context import StepContext, Whereabouts  # noqa: E402
from tests.torch_npu_backend.single_card import build_engine  # noqa: E402
from tests.torch_npu_backend.windows import of, window  # noqa: E402

NORMED = ModelSpec(
    "normed",
    SampleSpec((3, 6, 6), 4),
    (
        Conv2d("conv", 3, 20, 3, padding=1, bias=False),
        BatchNorm2d("bn", 20),
        AvgPool2d("pool", 2, 2),
        GlobalAvgPool2d("mean"),
        Linear("fc", 20, 4),
    ),
)


def plain_normed() -> torch.nn.Sequential:
    """The same network of torch's own layers."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 20, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(20),
        torch.nn.AvgPool2d(2, 2),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(20, 4),
    )


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_batch_norm_trains_as_torchs_on_the_real_rows(padding: int, accumulate: int) -> None:
    engine, plain = build_engine(NORMED, SGD(lr=0.1, momentum=0.0), accumulate=accumulate), plain_normed()
    state = engine.gather()
    names = ["conv.weight", "bn.weight", "bn.bias", "fc.weight", "fc.bias"]
    with torch.no_grad():
        for name, parameter in zip(names, plain.parameters(), strict=True):
            parameter.copy_(torch.from_numpy(state.parameters[name]))
    rows = 16
    batch = window(3, rows, (3, 6, 6), 4)
    samples, labels = batch.samples.copy(), batch.labels.copy()
    real = rows - padding
    samples[:, real:], labels[:, real:] = 9.0, -1
    result = engine.train(of(samples, labels, real), np.full(3, 0.1))
    for step in range(3):
        loss = torch.zeros(())
        plain.zero_grad()
        for part in range(accumulate):
            place = slice(part * rows // accumulate, min(real, (part + 1) * rows // accumulate))
            output = plain(torch.from_numpy(samples[step, place]))
            loss = loss + torch.nn.functional.cross_entropy(
                output, torch.from_numpy(labels[step, place]), reduction="sum"
            )
        (loss / real).backward()
        assert abs(result.losses[step] - loss.item() / real) < 1e-5
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter -= 0.1 * parameter.grad
    state = engine.gather()
    for name, parameter in zip(names, plain.parameters(), strict=True):
        np.testing.assert_allclose(state.parameters[name], parameter.detach().numpy(), atol=1e-5, err_msg=name)
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(state.buffers[f"bn.{name}"], getattr(plain[1], name).numpy(), atol=1e-5)
    plain.eval()
    found = engine.evaluate(batch)
    with torch.no_grad():
        outputs = plain(torch.from_numpy(batch.samples).flatten(0, 1))
        expected = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(batch.labels).flatten(), reduction="sum")
    assert abs(found.loss_sum - expected.item()) < 1e-3


def test_a_skipped_step_leaves_no_trace_in_the_running_statistics() -> None:
    engine = build_engine(NORMED, SGD(), skip_non_finite=True)
    before = engine.gather()
    batch = window(1, 8, (3, 6, 6), 4)
    batch.samples[0, 0] = np.nan
    result = engine.train(batch, np.full(1, 0.1))
    assert result.skipped == 1
    after = engine.gather()
    for name, array in (before.parameters | before.buffers).items():
        assert np.array_equal((after.parameters | after.buffers)[name], array), name
    engine.train(window(1, 8, (3, 6, 6), 4), np.full(1, 0.1))
    assert not np.array_equal(engine.gather().buffers["bn.running_mean"], before.buffers["bn.running_mean"])


def test_dropout_on_the_device_is_the_cores_definition_bit_for_bit() -> None:
    ids = np.array([3, 0, 70000, -1, 12])
    expected = keep_mask(9, "drop", 5, ids, 30, 0.4)
    for first, count in ((0, 30), (0, 7), (5, 25), (11, 8)):
        found = dropout.keep_mask(dropout_key(9, "drop"), 0.4, 5, torch.from_numpy(ids), first, count)
        assert np.array_equal(found.numpy(), expected[:, first : first + count])


@pytest.mark.parametrize(("shape", "split_dim"), [((6,), 0), ((4, 6), 1), ((6, 5, 5), 0)])
@pytest.mark.parametrize("parts", [2, 3])
def test_dropout_of_a_part_is_that_part_of_the_whole(shape: tuple[int, ...], split_dim: int, parts: int) -> None:
    ids = torch.tensor([[4, 9], [2, 7]])
    context = StepContext(epoch=1, ids=ids)

    def run(place: Whereabouts, tensor: torch.Tensor) -> torch.Tensor:
        return dropout.Dropout(dropout_key(0, "d"), 0.5, shape, place, split_dim, context).train()(tensor)

    whole = run(Whereabouts((0, 1), 0, 1), torch.ones(4, *shape))
    assert set(whole.unique().tolist()) == {0.0, 2.0}
    for part in range(parts):
        own = torch.ones(2, *shape).chunk(parts, split_dim + 1)[part]
        found = run(Whereabouts((1,), part, parts), own)
        assert torch.equal(found, whole[2:].chunk(parts, split_dim + 1)[part])


def test_dropout_changes_with_the_epoch_and_is_off_in_evaluation() -> None:
    spec = ModelSpec("dropped", SampleSpec((2, 3, 3), 3), (Flatten("f"), Dropout("d", 0.5), Linear("fc", 18, 3)))
    batch = window(1, 16, (2, 3, 3), 3)

    def loss(epoch: int) -> float:
        engine = build_engine(spec, SGD(lr=0.0))
        one = Window(batch.samples, batch.labels, batch.global_counts, batch.ids, epoch)
        return float(engine.train(one, np.zeros(1)).losses[0])

    assert loss(0) == loss(0)
    assert loss(0) != loss(1)
    engine = build_engine(spec, SGD(lr=0.0))
    assert engine.evaluate(batch).loss_sum == engine.evaluate(batch).loss_sum != 16 * loss(0)


def test_the_average_follows_the_weights_and_evaluation_runs_it() -> None:
    engine = build_engine(NORMED, SGD(lr=0.5, momentum=0.0), ema_decay=0.75)
    expected = engine.gather().parameters["fc.weight"]
    batches = window(3, 8, (3, 6, 6), 4)
    for step in range(3):
        one = slice(step, step + 1)
        part = Window(batches.samples[one], batches.labels[one], batches.global_counts[one], batches.ids[one])
        engine.train(part, np.full(1, 0.5))
        expected = 0.75 * expected + 0.25 * engine.gather().parameters["fc.weight"]
    state = engine.gather()
    np.testing.assert_allclose(state.slots["ema"]["fc.weight"], expected, atol=1e-6)
    found = engine.evaluate(batches).loss_sum
    weights = engine.gather().parameters
    assert np.array_equal(weights["fc.weight"], state.parameters["fc.weight"]), "the weights are back in their place"
    averaged = build_engine(NORMED, SGD())
    averaged.load(TrainingState(dict(state.slots["ema"]), buffers=state.buffers))
    assert averaged.evaluate(batches).loss_sum == found
    again = build_engine(NORMED, SGD(lr=0.5, momentum=0.0), ema_decay=0.75)
    again.load(state)
    assert np.array_equal(again.gather().slots["ema"]["fc.weight"], state.slots["ema"]["fc.weight"])


def test_the_loss_scale_falls_and_rises_by_torchs_rule() -> None:
    scale = LossScale()
    scaler = torch.amp.GradScaler("cpu", growth_interval=2000)
    assert scale.scale == scaler._init_scale
    assert scale.after(False) == LossScale(32768.0)
    for _ in range(1999):
        scale = scale.after(True)
    assert scale == LossScale(65536.0, 1999)
    assert scale.after(True) == LossScale(131072.0, 0)
    assert (scaler._growth_factor, scaler._backoff_factor, scaler._growth_interval) == (2.0, 0.5, 2000)


def test_amp_fp16_updates_by_unscaled_gradients() -> None:
    plain = build_engine(NORMED, SGD(lr=0.1, momentum=0.0))
    mixed = build_engine(NORMED, SGD(lr=0.1, momentum=0.0), precision=Precision.amp_fp16)
    batches = window(2, 16, (3, 6, 6), 4)
    plain.train(batches, np.full(2, 0.1))
    mixed.train(batches, np.full(2, 0.1))
    for name, array in plain.gather().parameters.items():
        found = mixed.gather().parameters[name]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, array, atol=2e-3, err_msg=name)
    assert mixed.gather().loss_scale == LossScale(65536.0, 2)
