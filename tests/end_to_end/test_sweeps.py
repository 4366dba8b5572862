"""Multirun: each job its own folder and processes, failures told at once, a table at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import run_module

pytestmark = pytest.mark.slow

COMMON = ("device=cpu", "backend.threads=1", "steps=4", "log.every_steps=1", "hydra.sweep.dir=sweep")


def jobs(folder: Path) -> dict[str, dict]:
    """Returns what each job left, by the name of its folder."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/job.json"))}


def test_every_job_has_its_own_folder_and_the_table_its_result(tmp_path: Path) -> None:
    done = run_module("core.train", "-m", *COMMON, "optimizer.lr=1e-2,1e-3", "cards=1,2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = jobs(tmp_path / "sweep")
    assert list(found) == ["0", "1", "2", "3"]
    assert found["3"]["overrides"][-2:] == ["optimizer.lr=0.001", "cards=2"]
    for name, job in found.items():
        summary = json.loads((tmp_path / "sweep" / name / "summary.json").read_text())
        assert job["objective"] == summary["eval_accuracy"]
        assert summary["cards"] == (1, 2, 1, 2)[int(name)]
        assert f"{job['objective']:.4f}" in done.stdout
    table = done.stdout.splitlines()[done.stdout.splitlines().index("sweep") :]
    assert any("optimizer.lr=0.001 cards=2" in line and "done" in line for line in table)
    assert not any("steps=4" in line for line in table), "what all jobs share is not repeated"


@pytest.mark.parametrize(("on_error", "last"), [("continue", "done"), ("stop", "skipped")])
def test_a_failing_job_is_told_at_once_and_in_its_folder(tmp_path: Path, on_error: str, last: str) -> None:
    done = run_module("core.train", "-m", *COMMON, "cards=1,7,2", f"sweep.on_error={on_error}", cwd=tmp_path)
    assert done.returncode == 1
    assert [job["status"] for job in jobs(tmp_path / "sweep").values()] == ["done", "failed", last]
    log = (tmp_path / "sweep" / "1" / "error.log").read_text()
    assert "LayoutError: Cannot cut linear layer 'fc1'" in log
    assert "LayoutError: Cannot cut linear layer 'fc1'" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "failed" in done.stdout


def test_jobs_run_side_by_side_under_joblib(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="the joblib launcher is an extra of Hydra")
    launcher = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    done = run_module("core.train", "-m", *COMMON, *launcher, "seed=0,1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [job["status"] for job in jobs(tmp_path / "sweep").values()] == ["done", "done"]
