"""The files of a run, and what stands in them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.commands import entries
from tests.end_to_end.runs import losses, summary, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    done = train(folder, "run", "cards=2", "epochs=3", "log.every_steps=5", "checkpoint.every_steps=10")
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_text(done.stdout)
    return folder / "run"


def test_there_is_nothing_but_what_the_readme_names(run_dir: Path) -> None:
    top = {name.split("/")[0] for name in entries(run_dir)}
    assert top <= {"config.json", "metrics.jsonl", "summary.json", "checkpoints", "logs", "tensorboard"}
    assert {"rank0.log", "rank1.log", "launcher.log"} <= {path.name for path in (run_dir / "logs").iterdir()}


def test_the_summary_holds_the_run(run_dir: Path) -> None:
    record = summary(run_dir)
    expected = {"backend": "torch_npu", "model": "lenet5", "device": "cpu", "cards": 2, "outcome": "complete"}
    assert {key: record[key] for key in expected} == expected
    assert record["layout"]["parameters"]["fc1.weight"] == "Shard(0)"
    assert record["steps"] == 3 * 12
    assert [entry["epoch"] for entry in record["epochs"]] == [1, 2, 3]
    for entry in record["epochs"]:
        assert entry["train_loss"] > 0
        assert entry["eval_loss"] > 0
        assert 0 < entry["eval_accuracy"] <= 1
        assert entry["train_samples_per_s"] > 0
    assert record["epochs"][2]["train_loss"] < record["epochs"][0]["train_loss"]
    assert len(record["peak_rss_mb"]) == 2


def test_metrics_have_a_line_a_logged_step_and_a_line_an_evaluation(run_dir: Path) -> None:
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    steps = [record for record in records if "loss" in record]
    assert [record["step"] for record in steps] == [5, 10, 15, 20, 25, 30, 35, 36]
    assert set(steps[0]) == {"step", "epoch", "loss", "lr", "samples_per_s"}
    evaluations = [record for record in records if "eval_loss" in record]
    assert [record["step"] for record in evaluations] == [12, 24, 36]
    assert all(record["count"] == 359 for record in evaluations)


def test_best_and_last_checkpoints_are_named(run_dir: Path) -> None:
    last = json.loads((run_dir / "checkpoints" / "last.json").read_text())
    best = json.loads((run_dir / "checkpoints" / "best.json").read_text())
    assert last["checkpoint"] == "step-00000036"
    assert best["metrics"]["eval_accuracy"] == max(entry["eval_accuracy"] for entry in summary(run_dir)["epochs"])
    assert (run_dir / "checkpoints" / best["checkpoint"] / "state.json").exists()


def test_tensorboard_events_are_written(run_dir: Path) -> None:
    if importlib.util.find_spec("tensorboardX") is None:
        pytest.skip("tensorboardX is an extra")
    files = list((run_dir / "tensorboard").iterdir())
    assert len(files) == 1
    content = files[0].read_bytes()
    for tag in (b"train/loss", b"train/lr", b"eval/accuracy"):
        assert tag in content


def test_a_piped_run_says_where_everything_lies_and_moves_no_bar(run_dir: Path) -> None:
    text = (run_dir.parent / "stdout").read_text()
    assert "\x1b" not in text
    for name in ("summary.json", "metrics.jsonl", "checkpoints", "logs"):
        assert str(run_dir / name) in text
    assert "mesh dp=2" in text
    assert "fc1.weight" in text


def test_a_short_last_batch_can_be_dropped(tmp_path: Path) -> None:
    done = train(tmp_path, "run", "cards=1", "epochs=1", "batch.last=drop")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "run")["steps"] == 1438 // 64
    assert "a short last batch is dropped" in done.stdout


@pytest.mark.parametrize("format", ["fp16", "bf16"])
def test_gradients_can_travel_in_half_the_bytes(tmp_path: Path, format: str) -> None:
    done = train(tmp_path, "run", "cards=2", "sharder=data_parallel", f"communicator.compress={format}", "epochs=2")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "run")["eval_accuracy"] > 0.5


def test_gradients_in_several_buckets_overlap_the_backward_pass(tmp_path: Path) -> None:
    """The same curve whether all gradients travel together or in buckets of 8 KiB."""
    curves = []
    for size in ("25.0", "0.008"):
        arguments = ("cards=2", "sharder=data_parallel", "steps=20", f"communicator.bucket_mb={size}")
        done = train(tmp_path, size, *arguments, "log.every_steps=1", "eval.every_epochs=0")
        assert done.returncode == 0, done.stderr
        curves.append(losses(tmp_path / size))
    assert max(abs(a - b) for a, b in zip(*curves, strict=True)) < 1e-5


def test_a_run_that_gets_no_better_ends_early(tmp_path: Path) -> None:
    """With a learning rate of zero every evaluation after the first is no better."""
    arguments = ("cards=1", "epochs=20", "optimizer.lr=0", "early_stop.patience=3")
    done = train(tmp_path, "run", *arguments)
    assert done.returncode == 0, done.stderr
    record = summary(tmp_path / "run")
    assert record["outcome"] == "early"
    assert len(record["epochs"]) == 4
    assert "ended early" in done.stdout


def test_accumulating_synchronises_once_a_step_and_draws_the_same_curve(tmp_path: Path) -> None:
    curves = []
    for parts in (1, 4):
        arguments = ("cards=2", "batch.global=64", f"batch.accumulate={parts}", "steps=30", "eval.every_epochs=0")
        more = (
            "schedule=cosine",
            "schedule.warmup_steps=5",
            "clip_norm=1.0",
            "label_smoothing=0.1",
            "log.every_steps=1",
        )
        done = train(tmp_path, str(parts), *arguments, *more, "seed=1")
        assert done.returncode == 0, done.stderr
        curves.append(losses(tmp_path / str(parts)))
    assert max(abs(a - b) for a, b in zip(*curves, strict=True)) < 1e-5


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_every_optimizer_trains(tmp_path: Path, optimizer: str) -> None:
    done = train(tmp_path, "run", "cards=1", f"optimizer={optimizer}", "epochs=5", "eval.every_epochs=0")
    assert done.returncode == 0, done.stderr
    epochs = summary(tmp_path / "run")["epochs"]
    assert epochs[-1]["train_loss"] < 0.8 * epochs[0]["train_loss"]
