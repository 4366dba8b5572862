"""What stays of a run: summary.json, and the metrics of each logged step in metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from core.config.assembly import Assembly
from core.training.records import Records

SUMMARY_FILE = "summary.json"
METRICS_FILE = "metrics.jsonl"

# The numbers of the summary that a sweep may optimise.
OBJECTIVES = ("eval_accuracy", "eval_loss", "train_loss", "train_samples_per_s", "seconds")


def build_summary(
    assembly: Assembly, records: Records, outcome: str, step: int, seconds: float, peak_rss_mb: Sequence[float]
) -> dict[str, Any]:
    """Returns the content of summary.json.

    Args:
        assembly: The parts of the run.
        records: What it has seen.
        outcome: "complete", "early" or "stopped".
        step: Updates done.
        seconds: Wall-clock time of all lives of the run.
        peak_rss_mb: Peak resident memory of each rank, MiB.
    """
    config, layout = assembly.config, assembly.layout
    return {
        "outcome": outcome,
        "backend": config.backend.name,
        "model": config.model.name,
        "data": config.data.name,
        "device": config.device.value,
        "communicator": config.communicator.name,
        "cards": config.cards,
        "layout": {
            "sharder": layout.sharder,
            "mesh": str(layout.mesh),
            "parameters": {name: ", ".join(map(str, placed)) for name, placed in layout.parameters.items()},
        },
        "global_batch": assembly.global_batch,
        "steps": step,
        "seconds": round(seconds, 3),
        "train_loss": records.train_loss,
        "eval_loss": records.evaluation.get("eval_loss"),
        "eval_accuracy": records.evaluation.get("eval_accuracy"),
        "train_samples_per_s": records.samples_per_s,
        "skipped_updates": records.skipped,
        "epochs": records.epochs,
        "peak_rss_mb": [round(peak, 1) for peak in peak_rss_mb],
    }


def save_summary(summary: Mapping[str, Any], run_dir: Path) -> None:
    """Writes summary.json, whole or not at all."""
    temporary = run_dir / f".{SUMMARY_FILE}"
    temporary.write_text(json.dumps(summary, indent=2) + "\n")
    temporary.replace(run_dir / SUMMARY_FILE)


class MetricsFile:
    """Appends lines to metrics.jsonl.

    Args:
        run_dir: The run directory.
        first_step: The step after which the run goes on; lines of later steps, of a life that was cut short, go.
    """

    def __init__(self, run_dir: Path, first_step: int) -> None:
        path = run_dir / METRICS_FILE
        kept = [line for line in _whole_lines(path) if json.loads(line)["step"] <= first_step]
        temporary = run_dir / f".{METRICS_FILE}"
        temporary.write_text("".join(f"{line}\n" for line in kept))
        temporary.replace(path)
        self._file: IO[str] = path.open("a")

    def write(self, record: Mapping[str, Any]) -> None:
        """Appends one record."""
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _whole_lines(path: Path) -> list[str]:
    """Returns the lines of a file but for one that a crash left unfinished."""
    if not path.exists():
        return []
    *lines, _ = path.read_text().split("\n")
    return [line for line in lines if line]
