"""A rank that fails ends the whole run at once, is the one that is shown, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.runs import last_checkpoint, prepare_probing, summary, train

pytestmark = pytest.mark.slow
END_S = 10.0


def ranks_of(run_dir: Path) -> list[psutil.Process]:
    """Returns the processes that have the run directory among their arguments, whoever their parent is."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if str(run_dir) in (process.info["cmdline"] or []):
            found.append(process)
    return found


def start(cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    """Starts core.train in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "core.train", "device=cpu", "hydra.run.dir=run", *arguments],
        cwd=cwd,
        env={**os.environ, **prepare_probing()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_step(run_dir: Path, step: int, timeout_s: float = 120) -> None:
    """Returns when rank 0 has told of `step`."""
    events = run_dir / "logs" / "rank0.events.jsonl"
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if events.exists():
            for line in events.read_text().splitlines():
                if (
                    line.endswith("}")
                    and json.loads(line).get("kind") == "progress"
                    and json.loads(line)["step"] >= step
                ):
                    return
        time.sleep(0.05)
    raise AssertionError(f"step {step} was not reached")


def time_of_fault(run_dir: Path) -> float:
    """Returns when the last rank told of progress before the fault, seconds since the epoch."""
    times = [0.0]
    for path in (run_dir / "logs").glob("rank*.events.jsonl"):
        times += [json.loads(line)["time"] for line in path.read_text().splitlines() if '"progress"' in line]
    return max(times)


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("raise", "RuntimeError: the probed fault"),
        ("exit", "exited with code 7"),
        ("kill", "killed by SIGKILL"),
    ],
)
@pytest.mark.parametrize("sharder", ["data_parallel", "hybrid"])
def test_a_rank_that_fails_ends_the_run(tmp_path: Path, fault: str, shown: str, sharder: str) -> None:
    done = train(
        tmp_path,
        "run",
        "backend=probed",
        f"backend.fault={fault}",
        "backend.rank=2",
        "backend.step=12",
        f"sharder={sharder}",
        "cards=4",
        "steps=200",
        "eval.every_epochs=0",
    )
    assert time.time() - time_of_fault(tmp_path / "run") < END_S
    assert done.returncode == 1
    first = done.stderr.splitlines()[0]
    assert first.startswith("RankFailedError: rank 2 of 4 failed at step")
    assert shown in first
    assert str(tmp_path / "run" / "logs" / "rank2.log") in done.stderr
    if fault == "raise":
        assert 'raise RuntimeError("the probed fault")' in done.stderr, "the trace's last lines are shown"
    assert not ranks_of(tmp_path / "run")


def test_a_loss_that_is_nan_ends_the_run_as_a_users_mistake(tmp_path: Path) -> None:
    done = train(tmp_path, "run", "backend=probed", "backend.fault=nan", "backend.step=7", "cards=2", "steps=20")
    assert done.returncode == 2
    assert "NonFiniteLossError: The loss is nan at step 8" in done.stderr
    assert "Traceback" not in done.stderr
    assert "on_nan=skip" in done.stderr


def test_on_nan_skip_skips_one_update_on_every_rank_alike(tmp_path: Path) -> None:
    arguments = ("backend=probed", "backend.fault=nan", "backend.step=7", "cards=2", "steps=20", "on_nan=skip")
    done = train(tmp_path, "run", *arguments, "sharder=hybrid")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "run")["skipped_updates"] == 1
    state = json.loads((last_checkpoint(tmp_path / "run") / "state.json").read_text())
    assert "19" in json.dumps(state)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_parent_ends_the_run_after_a_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, "backend=probed", "backend.fault=slow", "cards=2", "steps=5000", "eval.every_epochs=0")
    wait_for_step(tmp_path / "run", 20)
    begin = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - begin < END_S
    assert process.returncode == 128 + number, out + err
    assert f"stopped by {number.name}" in err
    assert "resume=auto" in err
    assert not ranks_of(tmp_path / "run")
    step = int(last_checkpoint(tmp_path / "run").name.removeprefix("step-"))
    assert step >= 20
    assert summary(tmp_path / "run")["outcome"] == "stopped"


def test_a_signal_ends_a_sweep_and_not_just_its_job(tmp_path: Path) -> None:
    sweep = ("hydra.sweep.dir=sweep", "hydra.sweep.subdir=job-${hydra.job.num}", "seed=0,1")
    run = ("backend=probed", "backend.fault=slow", "cards=1", "steps=5000", "eval.every_epochs=0")
    process = start(tmp_path, *sweep, *run, "-m")
    wait_for_step(tmp_path / "sweep" / "job-0", 10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert last_checkpoint(tmp_path / "sweep" / "job-0").is_dir()
    assert not (tmp_path / "sweep" / "job-1").exists()


def test_two_signals_end_a_run_that_does_not_listen(tmp_path: Path) -> None:
    process = start(tmp_path, "backend=probed", "backend.fault=hang", "backend.step=3", "cards=2", "steps=50")
    wait_for_step(tmp_path / "run", 1)
    time.sleep(1.0)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert time.monotonic() - begin < END_S
    assert process.returncode == 130
    assert not ranks_of(tmp_path / "run")


def test_a_killed_parent_leaves_no_worker_behind(tmp_path: Path) -> None:
    process = start(tmp_path, "backend=probed", "backend.fault=slow", "cards=2", "steps=5000", "eval.every_epochs=0")
    wait_for_step(tmp_path / "run", 5)
    ranks = ranks_of(tmp_path / "run")
    assert len(ranks) >= 3, "two ranks and their launcher"
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(ranks, timeout=END_S)
    assert not alive
