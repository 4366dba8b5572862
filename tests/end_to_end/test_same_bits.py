"""batch.shards: the same curve and the same weights to the last bit on any number of cards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_module
from tests.end_to_end.runs import last_checkpoint, losses, summary, tensors, train

pytestmark = pytest.mark.slow


def write_cifar10(folder: Path) -> None:
    """Writes a set in the format of CIFAR-10's binary version: each class is a colour pattern under noise."""
    random = np.random.default_rng(0)
    patterns = random.integers(0, 256, (10, 3, 8, 8)).repeat(4, 2).repeat(4, 3)
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        labels = np.arange(30) % 10
        noise = random.integers(-60, 60, (30, 3, 32, 32))
        images = np.clip(patterns[labels] * 0.6 + 50 + noise, 0, 255).astype(np.uint8)
        records = np.concatenate([labels[:, None].astype(np.uint8), images.reshape(30, -1)], axis=1)
        records.tofile(folder / name)


def runs_on_1_2_and_4_cards(tmp_path: Path, arguments: Sequence[str]) -> list[Path]:
    """Returns the run directories."""
    for cards in (1, 2, 4):
        done = train(tmp_path, f"cards{cards}", *arguments, f"cards={cards}", "batch.shards=4", "log.every_steps=1")
        assert done.returncode == 0, done.stderr
    return [tmp_path / f"cards{cards}" for cards in (1, 2, 4)]


def assert_same(run_dirs: list[Path]) -> None:
    first, *others = run_dirs
    weights = tensors(last_checkpoint(first))
    for other in others:
        assert losses(other) == losses(first)
        found = tensors(last_checkpoint(other))
        assert found.keys() == weights.keys()
        for name, array in weights.items():
            assert np.array_equal(found[name], array), name


def test_resnet18_on_cifar_with_batch_norm_augmentation_and_dropout(tmp_path: Path) -> None:
    """50 steps of 16 out of 150 images: every tenth step is a short batch of 6, in four uneven parts."""
    (tmp_path / "cifar").mkdir()
    write_cifar10(tmp_path / "cifar")
    folders = runs_on_1_2_and_4_cards(
        tmp_path,
        (
            "model=resnet18",
            "model.dropout=0.1",
            "data=cifar10",
            f"data.root={tmp_path / 'cifar'}",
            "data.resize=[8,8]",
            "augment.crop_padding=1",
            "batch.global=16",
            "steps=50",
        ),
    )
    assert_same(folders)
    curve = losses(folders[0])
    assert len(curve) == 50
    assert np.mean(curve[-5:]) < 0.5 * np.mean(curve[:5]), "it learns"
    accuracies = [summary(folder)["eval_accuracy"] for folder in folders]
    assert accuracies[0] == accuracies[1] == accuracies[2] > 0.5


def test_lenet5_with_accumulation_clipping_and_average(tmp_path: Path) -> None:
    arguments = ("batch.accumulate=2", "batch.global=64", "clip_norm=0.5", "ema_decay=0.9", "steps=30")
    folders = runs_on_1_2_and_4_cards(tmp_path, (*arguments, "sharder=data_parallel", "eval.every_epochs=0"))
    assert_same(folders)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sharder=zero1", "cards=2"), "rounds differently"),
        (("sharder=hybrid", "cards=2"), "moves activations between cards"),
        (("sharder=data_parallel", "cards=3"), "does not divide by the cards"),
        (("sharder=data_parallel", "model=resnet18", "model.sync_batch_norm=false"), "see one card's rows alone"),
        (("sharder=data_parallel", "batch.shards=3"), "a power of two"),
    ],
)
def test_what_cannot_have_the_same_bits_is_an_error(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run_module("core.train", "device=cpu", "batch.shards=4", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
