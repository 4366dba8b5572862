"""Mixed precision on the CPU: the curve of float32, and an overflow that leaves no trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.checkpoint import load_checkpoint, save_checkpoint
from core.contracts import LossScale
from tests.end_to_end.runs import last_checkpoint, losses, summary, tensors, train

pytestmark = pytest.mark.slow

FAR_TOO_LARGE = LossScale(2.0**26)


@pytest.fixture(scope="module")
def float32_loss(tmp_path_factory: pytest.TempPathFactory) -> float:
    return last_epoch_loss(tmp_path_factory.mktemp("fp32"), "fp32")


def last_epoch_loss(folder: Path, precision: str) -> float:
    """Returns the mean loss over the last 23 of 200 steps, one epoch.

    The learning rate is a fifth of the default: with that the loss is so small after 200 steps that two float32 runs
    with different numbers of threads are several percent apart.
    """
    arguments = ("steps=200", "log.every_steps=1", "batch.global=64", "optimizer.lr=2e-4", "eval.every_epochs=0")
    done = train(folder, "run", f"precision={precision}", *arguments)
    assert done.returncode == 0, done.stderr
    assert summary(folder / "run")["skipped_updates"] == 0
    curve = losses(folder / "run")
    assert len(curve) == 200
    return float(np.mean(curve[-23:]))


@pytest.mark.parametrize("precision", ["amp_bf16", "amp_fp16"])
def test_after_200_steps_the_loss_is_that_of_float32(tmp_path: Path, float32_loss: float, precision: str) -> None:
    loss = last_epoch_loss(tmp_path, precision)
    print(f"{precision}: {loss:.5f}, fp32: {float32_loss:.5f}, apart by {abs(loss / float32_loss - 1):.2%}")
    assert loss != float32_loss
    assert abs(loss / float32_loss - 1) < 0.02


def test_an_overflow_halves_the_scale_skips_the_step_on_all_ranks_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    """A checkpoint with a loss scale that is far too large: the next steps overflow until it has come down."""
    common = ("cards=2", "sharder=hybrid", "precision=amp_fp16", "batch.global=64", "eval.every_epochs=0")
    assert train(tmp_path, "first", *common, "steps=5").returncode == 0
    checkpoint = load_checkpoint(last_checkpoint(tmp_path / "first"))
    assert checkpoint.state.loss_scale == LossScale(65536.0, good_steps=5)
    assert checkpoint.state.num_updates == 5
    checkpoint.state.loss_scale = FAR_TOO_LARGE
    start = tmp_path / "large"
    save_checkpoint(start, checkpoint)

    done = train(tmp_path, "whole", *common, "steps=30", f"resume={start}")
    assert done.returncode == 0, done.stderr
    whole = load_checkpoint(last_checkpoint(tmp_path / "whole"))
    skipped = summary(tmp_path / "whole")["skipped_updates"]
    assert skipped >= 4
    assert whole.state.num_updates == 30 - skipped
    assert whole.state.loss_scale.scale == FAR_TOO_LARGE.scale / 2**skipped
    assert 0 < whole.state.loss_scale.good_steps <= 25 - skipped
    assert all(np.isfinite(array).all() for array in whole.state.parameters.values())

    middle = 5 + 3  # while the scale is still coming down
    assert train(tmp_path, "half", *common, f"steps={middle}", f"resume={start}").returncode == 0
    half = load_checkpoint(last_checkpoint(tmp_path / "half"))
    assert half.state.loss_scale == LossScale(FAR_TOO_LARGE.scale / 2 ** (middle - 5))
    for name, array in checkpoint.state.parameters.items():
        assert np.array_equal(half.state.parameters[name], array), "a skipped step updates nothing"
    assert train(tmp_path, "rest", *common, "steps=30", f"resume={tmp_path / 'half'}").returncode == 0
    assert load_checkpoint(last_checkpoint(tmp_path / "rest")).state.loss_scale == whole.state.loss_scale
    resumed, expected = tensors(last_checkpoint(tmp_path / "rest")), tensors(last_checkpoint(tmp_path / "whole"))
    assert resumed.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(resumed[name], array), name
