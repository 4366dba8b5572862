"""Starting real runs, and reading what they leave."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from tests.commands import ROOT, run_module

PROBING = Path(__file__).parent / "probing"
VARIABLES = {"PYTHONPATH": f"{ROOT}:{PROBING}"}


def prepare_probing() -> dict[str, str]:
    """Returns the variables under which backend=probed is found, through metadata as pip would install it."""
    info = PROBING / "anycard_probing-1.0.dist-info"
    assert info.is_dir()
    return VARIABLES


def train(cwd: Path, run_dir: str, *arguments: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
    """Runs core.train into `run_dir` below `cwd`, on the CPU with one thread a rank."""
    return run_module(
        "core.train",
        "device=cpu",
        f"hydra.run.dir={run_dir}",
        *([] if any(argument.startswith("backend") for argument in arguments) else ["backend.threads=1"]),
        *arguments,
        cwd=cwd,
        environment=prepare_probing(),
        timeout_s=timeout_s,
    )


def losses(run_dir: Path) -> list[float]:
    """Returns the loss of every logged step, in order."""
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if "loss" in record]


def summary(run_dir: Path) -> dict[str, Any]:
    """Returns the run's summary."""
    return json.loads((run_dir / "summary.json").read_text())


def last_checkpoint(run_dir: Path) -> Path:
    """Returns the folder of the newest checkpoint."""
    return run_dir / "checkpoints" / json.loads((run_dir / "checkpoints" / "last.json").read_text())["checkpoint"]


def tensors(checkpoint: Path) -> dict[str, Any]:
    """Returns parameters and moments of a checkpoint."""
    return {**load_file(checkpoint / "model.safetensors"), **load_file(checkpoint / "optimizer.safetensors")}
