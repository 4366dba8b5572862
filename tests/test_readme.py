"""The README's commands do what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.commands import ROOT

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^    (\S.*)$", re.sub(r"```.*?```", "", README, flags=re.DOTALL), flags=re.MULTILINE)

TWO_MACHINES = "python -m core.train nodes=2 cards=8 cluster.rendezvous=10.0.0.1:29500 hydra.run.dir=/shared/run"
SRUN = (
    "srun --nodes=2 --ntasks-per-node=4 python -m core.train launcher=external cards=8 hydra.run.dir=runs/$SLURM_JOB_ID"
)
SUBMITIT = (
    "python -m core.train -m hydra/launcher=submitit_slurm hydra.launcher.gpus_per_node=4 cards=4 "
    "optimizer.lr=1e-2,1e-3"
)

# Why a command is not run as it stands.
ELSEWHERE = {
    TWO_MACHINES: "needs two machines; test_several_machines runs the like",
    f"{TWO_MACHINES} cluster.node_rank=1": "needs two machines; test_several_machines runs the like",
    SRUN: "needs Slurm; test_external_start sets its variables by hand",
    "pip install 'anycard[slurm]'": "needs the network",
    SUBMITIT: "needs Slurm; test_external_start runs submitit's local launcher where it is installed",
    "make test": "this is it",
    "make train": "test_make_train_on_a_fresh_copy runs it",
    "source /usr/local/Ascend/ascend-toolkit/set_env.sh": "needs CANN",
    "pip install 'anycard[npu]'": "needs CANN",
    "python -m core.train experiment=lenet5_ascend device=npu": "needs NPUs; test_the_ascend_recipe runs the rest",
}


def run_shell(command: str, cwd: Path, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
    """Runs a line in bash, with the interpreter of the tests as `python`."""
    folder = Path(sys.executable).parent
    variables = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=variables, capture_output=True, text=True, timeout=timeout_s
    )


def test_there_are_commands_to_run() -> None:
    assert len(COMMANDS) > 8
    assert set(ELSEWHERE) <= set(COMMANDS)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in ELSEWHERE])
def test_command(tmp_path: Path, command: str) -> None:
    """Runs each on little data: a command that trains gets two steps more or less."""
    if "FOLDER" in command:
        for split in ("train", "eval"):
            np.save(tmp_path / f"{split}_samples.npy", np.zeros((40, 28, 28), dtype=np.uint8))
            np.save(tmp_path / f"{split}_labels.npy", np.arange(40) % 10)
        command = command.replace("FOLDER", str(tmp_path))
    if "RUN_DIRECTORY" in command:
        first = run_shell("python -m core.train cards=4 steps=3 hydra.run.dir=first", tmp_path)
        assert first.returncode == 0, first.stderr
        command = command.replace("RUN_DIRECTORY", "first")
    if "examples/" in command:
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    if "core.train" in command and "--help" not in command:
        command += " steps=5"
    done = run_shell(command, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout or "eval" in command


def test_the_ascend_recipe(tmp_path: Path) -> None:
    done = run_shell("python -m core.train experiment=lenet5_ascend device=cpu steps=5", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mesh dp=4, sharder hybrid" in done.stdout
    assert "adam lr 0.001" in done.stdout


def test_the_console_script_is_the_same_command(tmp_path: Path) -> None:
    script = Path(sys.executable).parent / "anycard"
    if not script.exists():
        pytest.skip("anycard is not installed in this environment, as `make test` does")
    assert "Config groups" in run_shell(f"{script} --help", tmp_path).stdout


def test_make_train_on_a_fresh_copy(tmp_path: Path) -> None:
    """Nothing but Python and make: sets up a virtual environment, trains, and ends at 0.97 or better."""
    copy = tmp_path / "anycard"
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in names:
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    kept = ("PATH", "HOME", "LANG")
    variables = {name: value for name, value in os.environ.items() if name in kept or "PIP" in name or "SSL" in name}
    command = ["make", "train", f"PYTHON={getattr(sys, '_base_executable', sys.executable)}"]
    done = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (summary,) = copy.glob("runs/*/summary.json")
    record = json.loads(summary.read_text())
    assert record["cards"] == 4
    assert record["layout"]["sharder"] == "hybrid"
    assert record["eval_accuracy"] >= 0.97
    assert str(summary) in done.stdout
