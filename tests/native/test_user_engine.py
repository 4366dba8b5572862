from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

from safetensors.numpy import save_file  # noqa: E402
from safetensors.torch import load_model, save_model  # noqa: E402

from core.checkpoint import find_weights  # noqa: E402
from core.contracts import SGD, Adam, Precision, TrainingState  # noqa: E402
from core.errors import CheckpointError  # noqa: E402
from core.models.native import Native, NativeOptions  # noqa: E402
from core.spec import SampleSpec  # noqa: E402
from plugins.torch_npu_backend.user_buffers import UserBuffers  # noqa: E402
from tests.native.described import MODELS, described  # noqa: E402
from tests.native.user_models import Everything, Plain  # noqa: E402
from tests.torch_npu_backend.single_card import build_engine  # noqa: E402
from tests.torch_npu_backend.windows import of, window  # noqa: E402

RULE = SGD(lr=0.1, momentum=0.9, weight_decay=0.01)


def everything(state: TrainingState) -> dict[str, np.ndarray]:
    moments = {f"{slot}.{name}": one for slot, arrays in state.slots.items() for name, one in arrays.items()}
    return state.parameters | state.buffers | moments


def test_a_step_is_that_of_the_plain_module(tmp_path: Path) -> None:
    spec = described(tmp_path, "Plain", SampleSpec((1, 28, 28), 10))
    engine = build_engine(spec, RULE)
    batches = window(5, 8, (1, 28, 28), 10)
    result = engine.train(batches, np.full(5, 0.1))
    torch.manual_seed(0)
    module = Plain()
    used = [one for name, one in module.named_parameters() if name != "idle"]
    rule = torch.optim.SGD(used, lr=0.1, momentum=0.9, weight_decay=0.01)
    for step in range(5):
        loss = torch.nn.functional.cross_entropy(
            module(torch.from_numpy(batches.samples[step])), torch.from_numpy(batches.labels[step])
        )
        assert abs(float(loss.detach()) - result.losses[step]) < 1e-5
        rule.zero_grad()
        loss.backward()
        rule.step()
    for name, array in engine.gather().parameters.items():
        if name != "idle":
            np.testing.assert_allclose(array, module.state_dict()[name].numpy(), atol=1e-5)


def test_going_on_from_a_state_gives_the_same_bits(tmp_path: Path) -> None:
    """Dropout and batch norm included, and cut in another place than the windows are."""
    spec = described(tmp_path, "Everything")
    batches = window(6, 8, (6,), 3)
    whole, first, second = (build_engine(spec, RULE, ema_decay=0.9, accumulate=2) for _ in range(3))
    parts = [
        type(batches)(
            *(array[piece] for array in (batches.samples, batches.labels, batches.global_counts, batches.ids))
        )
        for piece in (slice(0, 3), slice(3, 6))
    ]
    whole.train(batches, np.full(6, 0.1))
    first.train(parts[0], np.full(3, 0.1))
    torch.rand(7)
    second.load(first.gather())
    second.train(parts[1], np.full(3, 0.1))
    one, other = everything(whole.gather()), everything(second.gather())
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
        assert array.dtype == other[name].dtype


def test_dropout_draws_anew_in_each_step_and_epoch(tmp_path: Path) -> None:
    spec = described(tmp_path, "Everything")
    batch = window(1, 8, (6,), 3)
    seen = set()
    for epoch, shift in ((0, 0), (1, 0), (0, 8)):
        engine = build_engine(spec, SGD())
        moved = type(batch)(batch.samples, batch.labels, batch.global_counts, batch.ids + shift, epoch)
        seen.add(float(engine.train(moved, np.zeros(1)).losses[0]))
    assert len(seen) == 3


def test_buffers_move_and_what_is_frozen_stays(tmp_path: Path) -> None:
    spec = described(tmp_path, "Everything")
    engine = build_engine(spec, Adam(weight_decay=0.1))
    before = TrainingState.initial(spec, 0)
    engine.train(window(3, 8, (6,), 3), np.full(3, 0.1))
    after = engine.gather()
    assert after.buffers["steps"] == after.buffers["inner.1.num_batches_tracked"] == 3
    assert after.buffers["steps"].dtype == np.int64
    assert not np.array_equal(after.buffers["inner.1.running_mean"], before.buffers["inner.1.running_mean"])
    for name in ("scale", "table"):
        np.testing.assert_array_equal(after.buffers[name], before.buffers[name])


def test_padding_leaves_no_trace_in_statistics(tmp_path: Path) -> None:
    spec = described(tmp_path, "Everything")
    batch = window(1, 8, (6,), 3)
    whole, padded = build_engine(spec, SGD()), build_engine(spec, SGD())
    samples = np.concatenate([batch.samples, np.full((1, 3, 6), 9, np.float32)], axis=1)
    labels = np.concatenate([batch.labels, np.full((1, 3), -1)], axis=1)
    one = whole.train(batch, np.full(1, 0.1))
    other = padded.train(of(samples, labels, 8), np.full(1, 0.1))
    assert abs(one.losses[0] - other.losses[0]) < 1e-6
    for name, array in whole.gather().buffers.items():
        np.testing.assert_array_equal(array, padded.gather().buffers[name], err_msg=name)


def test_a_skipped_step_leaves_no_trace(tmp_path: Path) -> None:
    spec = described(tmp_path, "Everything")
    engine = build_engine(spec, RULE, skip_non_finite=True)
    before = everything(engine.gather())
    batch = window(1, 8, (6,), 3)
    bad = np.full_like(batch.samples, np.nan)
    result = engine.train(of(bad, batch.labels, 8), np.full(1, 0.1))
    assert result.skipped == 1
    for name, array in everything(engine.gather()).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_ordered_parts_run_on_replicas(tmp_path: Path) -> None:
    spec = described(tmp_path, "Plain", SampleSpec((1, 28, 28), 10))
    batches = window(2, 8, (1, 28, 28), 10)
    parts = type(batches)(batches.samples, batches.labels, batches.global_counts, batches.ids.reshape(2, 2, 4))
    one, two = build_engine(spec, RULE), build_engine(spec, RULE, shards=2)
    first, second = one.train(batches, np.full(2, 0.1)), two.train(parts, np.full(2, 0.1))
    np.testing.assert_allclose(first.losses, second.losses, atol=1e-5)


@pytest.mark.parametrize("precision", ["amp_bf16", "amp_fp16"])
def test_mixed_precision_reaches_the_module(tmp_path: Path, precision: str) -> None:
    spec = described(tmp_path, "Plain", SampleSpec((1, 28, 28), 10))
    batches = window(2, 8, (1, 28, 28), 10)
    full = build_engine(spec, RULE).train(batches, np.full(2, 0.1)).losses
    mixed = build_engine(spec, RULE, precision=Precision(precision), clip_norm=100.0).train(batches, np.full(2, 0.1))
    assert not np.array_equal(full, mixed.losses)
    np.testing.assert_allclose(full, mixed.losses, atol=0.05)


class Pair:
    """The communicator of the first of two ranks, whose other one adds fixed numbers."""

    def __init__(self, change: float, count: int) -> None:
        self._change, self._count = change, count

    def all_reduce(self, tensor: Any, axes: tuple[str, ...]) -> Any:
        tensor += self._change
        return type("Done", (), {"wait": lambda self: None})()

    def all_gather(self, tensor: Any, axis: str, dim: int) -> Any:
        return torch.cat([tensor, torch.full_like(tensor, self._count)])


def test_buffers_of_two_ranks_come_together() -> None:
    constant = 1 / 3
    values, count = torch.full((4,), constant), torch.tensor(5)
    buffers = UserBuffers([values, count], ("dp",), Pair(0.0, 7), may_skip=False)
    buffers.begin(1, 3)
    buffers.commit()
    assert torch.equal(values, torch.full((4,), constant)), "a constant stays as it is"
    assert count == 7
    buffers = UserBuffers([values, count], ("dp",), Pair(0.25, 3), may_skip=False)
    buffers.begin(1, 4)
    values += 1.0
    buffers.commit()
    torch.testing.assert_close(values, torch.full((4,), constant + 1 / 4 + 0.25))
    assert count == 7


def test_published_weights_are_those_of_the_state_dict(tmp_path: Path) -> None:
    spec = described(tmp_path / "spec", "Everything")
    torch.manual_seed(9)
    module = Everything()
    module.steps += 4
    file = tmp_path / "weights.safetensors"
    save_model(module, file)
    options = {"target": {"torch_npu": f"{MODELS}:Everything"}, "weights": str(file)}
    weights = find_weights(Native(NativeOptions(**options)), spec)
    assert weights is not None
    state = weights.load(spec, 0)
    assert state.buffers["steps"] == 4
    assert state.buffers["steps"].dtype == np.int64
    engine = build_engine(spec, SGD())
    engine.load(state)
    target = Everything()
    written = tmp_path / "again.safetensors"
    gathered = engine.gather()
    save_file(gathered.parameters | gathered.buffers, written)
    load_model(target, written, strict=True)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, target.state_dict()[name]), name


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    spec = described(tmp_path / "spec", "Everything")
    file = tmp_path / "weights.safetensors"
    save_model(Plain(), file)
    options = {"target": {"torch_npu": f"{MODELS}:Everything"}, "weights": str(file)}
    with pytest.raises(CheckpointError) as caught:
        find_weights(Native(NativeOptions(**options)), spec)
    for part in ("'fc.weight' missing", "'steps' missing", "'fc1.weight' unexpected"):
        assert part in str(caught.value)
