"""Stop anywhere, go on, and the weights are those of a run that was never stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.end_to_end.runs import last_checkpoint, losses, summary, tensors, train

pytestmark = pytest.mark.slow


def assert_same_bits(one: Path, other: Path) -> None:
    first, second = tensors(one), tensors(other)
    assert first.keys() == second.keys()
    for name in first:
        assert np.array_equal(first[name], second[name]), name


@pytest.mark.parametrize("stop", [1, 22, 23, 30])
def test_resumed_weights_are_bit_identical(tmp_path: Path, stop: int) -> None:
    """Stops in an epoch, at its last step, at its short last batch and in the next epoch (23 steps of 64)."""
    common = ("cards=1", "log.every_steps=1")
    for arguments in (("whole", "steps=40"), ("cut", f"steps={stop}")):
        done = train(tmp_path, *arguments, *common)
        assert done.returncode == 0, done.stderr
    done = train(tmp_path, "cut", "steps=40", "resume=auto", *common)
    assert done.returncode == 0, done.stderr
    assert f"step-{stop:08d}" in done.stdout
    assert_same_bits(last_checkpoint(tmp_path / "whole"), last_checkpoint(tmp_path / "cut"))
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    whole, cut = summary(tmp_path / "whole"), summary(tmp_path / "cut")
    assert [entry["train_loss"] for entry in cut["epochs"]] == [entry["train_loss"] for entry in whole["epochs"]]


def test_bit_identical_on_four_cards_of_a_hybrid_layout(tmp_path: Path) -> None:
    common = ("cards=4", "batch.global=64", "sharder=hybrid", "eval.every_epochs=0")
    for arguments in (("whole", "steps=20"), ("cut", "steps=9")):
        assert train(tmp_path, *arguments, *common).returncode == 0
    assert train(tmp_path, "cut", "steps=20", "resume=auto", *common).returncode == 0
    assert_same_bits(last_checkpoint(tmp_path / "whole"), last_checkpoint(tmp_path / "cut"))


def test_another_layout_continues_the_curve(tmp_path: Path) -> None:
    common = ("batch.global=64", "log.every_steps=1", "eval.every_epochs=0")
    hybrid = ("cards=4", "sharder=hybrid", *common)
    assert train(tmp_path, "whole", "steps=60", *hybrid).returncode == 0
    assert train(tmp_path, "cut", "steps=30", *hybrid).returncode == 0
    done = train(
        tmp_path, "other", "steps=60", "cards=2", "sharder=data_parallel", f"resume={tmp_path / 'cut'}", *common
    )
    assert done.returncode == 0, done.stderr
    gap = max(abs(a - b) for a, b in zip(losses(tmp_path / "other"), losses(tmp_path / "whole")[30:], strict=True))
    assert gap < 1e-4


def test_a_damaged_checkpoint_is_named_and_passed_over(tmp_path: Path) -> None:
    common = ("cards=1", "checkpoint.every_steps=10", "eval.every_epochs=0")
    assert train(tmp_path, "run", "steps=20", *common).returncode == 0
    newest = last_checkpoint(tmp_path / "run")
    damaged = newest / "model.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    done = train(tmp_path, "run", "steps=25", "resume=auto", *common)
    assert done.returncode == 0, done.stderr
    assert "passed over a damaged checkpoint" in done.stdout
    assert newest.name in done.stdout
    assert "continues from" in done.stdout
    assert "step-00000010" in done.stdout
    damaged.write_bytes(content)
    done = train(tmp_path, "other", "steps=25", f"resume={newest}", *common)
    assert done.returncode == 2, "a damaged checkpoint that is asked for by name is an error"
    assert "model.safetensors" in done.stderr


def test_a_run_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    assert train(tmp_path, "run", "steps=2", "cards=1").returncode == 0
    done = train(tmp_path, "run", "steps=2", "cards=1")
    assert done.returncode == 2
    assert "holds a run already" in done.stderr
    assert "resume=auto" in done.stderr
