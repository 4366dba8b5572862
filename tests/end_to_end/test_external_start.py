"""Ranks that torchrun or srun has started: one run directory, whoever started the processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands import ROOT, entries, run_module
from tests.end_to_end.conftest import FEW_STEPS
from tests.end_to_end.hosts import Commands
from tests.end_to_end.runs import losses, prepare_probing, summary
from tests.end_to_end.test_failures import ranks_of
from tests.end_to_end.test_several_machines import free_port

pytestmark = pytest.mark.slow
SHORT = (*FEW_STEPS, "cards=2", "sharder=data_parallel", "device=cpu")
OUTSIDE = ("core.train", "launcher=external", "hydra.run.dir=run")


def test_torchrun_starts_the_ranks(tmp_path: Path, two_card_losses: list[float]) -> None:
    torchrun = ("torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}", "-m")
    done = run_module(*torchrun, *OUTSIDE, *SHORT, "backend.threads=1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert losses(tmp_path / "run") == pytest.approx(two_card_losses, abs=1e-5)
    assert summary(tmp_path / "run")["outcome"] == "complete"
    assert (tmp_path / "run" / "checkpoints" / "last.json").exists()
    assert done.stdout.count("step 6/6") == 1, "one process shows the run"


def test_torchrun_hears_of_a_rank_that_fails(tmp_path: Path) -> None:
    torchrun = ("torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}", "-m")
    fault = ("backend=probed", "backend.fault=exit", "backend.rank=1", "backend.step=3")
    done = run_module(*torchrun, *OUTSIDE, *SHORT, *fault, cwd=tmp_path, environment=prepare_probing())
    assert done.returncode != 0
    assert "RankFailedError: rank 1 of 2 failed at step" in done.stderr
    assert "exited with code 7" in done.stderr
    assert not ranks_of(tmp_path / "run")


def test_srun_starts_the_ranks(tmp_path: Path, two_card_losses: list[float]) -> None:
    """Slurm's variables are set by hand."""
    job = {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "2", "SLURM_NNODES": "1", "MASTER_PORT": str(free_port())}
    with Commands(tmp_path, {**os.environ, **job}) as commands:
        tasks = [
            commands.start(*OUTSIDE, *SHORT, "backend.threads=1", SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank))
            for rank in (1, 0)
        ]
        told = [task.communicate(timeout=240) for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], told
    assert losses(tmp_path / "run") == pytest.approx(two_card_losses, abs=1e-5)
    assert entries(tmp_path).count("run/summary.json") == 1


def test_other_cards_than_were_started_are_an_error(tmp_path: Path) -> None:
    task = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2"}
    done = run_module(*OUTSIDE, "cards=4", "device=cpu", cwd=tmp_path, environment=task)
    assert done.returncode == 2
    assert "Received: cards=4. Allowed: cards=2" in done.stderr
    assert not entries(tmp_path)


def test_a_process_that_nobody_started_as_a_rank_is_an_error(tmp_path: Path) -> None:
    done = run_module(*OUTSIDE, "cards=2", "device=cpu", cwd=tmp_path)
    assert done.returncode == 2
    assert "launcher=external finds no rank in the environment" in done.stderr
    assert not entries(tmp_path)


def test_a_job_of_a_sweep_runs_under_submitit(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="the extra 'slurm' is not installed")
    sweep = ("-m", "hydra/launcher=submitit_local", "hydra.sweep.dir=sweep", "device=cpu", "backend.threads=1")
    done = run_module("core.train", *sweep, "steps=3", "seed=0,1", cwd=tmp_path, environment={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert [summary(tmp_path / "sweep" / job)["steps"] for job in ("0", "1")] == [3, 3]
