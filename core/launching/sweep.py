"""The end of a multirun: a table of the jobs with their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from core.launching.job import JOB_FILE
from core.launching.tables import build_table


class SweepReport(Callback):
    """Hydra's callback that notes where a sweep lies; its table is printed even when a job's error ends the sweep."""

    _sweep: tuple[Path, str] | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Notes the sweep's folder and objective."""
        SweepReport._sweep = (Path(config.hydra.sweep.dir), str(config.objective))

    @classmethod
    def print_table(cls) -> int:
        """Prints one row a job, in the order of their folders; the jobs may have run in other processes.

        Returns:
            How many jobs failed or were skipped; 0 when there was no sweep.
        """
        if cls._sweep is None:
            return 0
        folder, objective = cls._sweep
        jobs = [(path.parent, json.loads(path.read_text())) for path in folder.glob(f"*/{JOB_FILE}")]
        jobs.sort(key=lambda item: [int(part) if part.isdigit() else 0 for part in item[0].name.split("-")])
        Console(soft_wrap=True).print(sweep_table(jobs, objective))
        return sum(job["status"] != "done" for _, job in jobs)


def sweep_table(jobs: list[tuple[Path, dict[str, Any]]], objective: str) -> Table:
    """Returns the table of a sweep's jobs, with the overrides in which they differ."""
    shared = set.intersection(*(set(job["overrides"]) for _, job in jobs)) if len(jobs) > 1 else set()
    table = build_table(("job", "overrides", "status", objective, "folder or error"), title="sweep")
    for folder, job in jobs:
        value = "" if job["objective"] is None else f"{job['objective']:.4f}"
        where = str(folder) if job["status"] == "done" else job["message"]
        own = " ".join(override for override in job["overrides"] if override not in shared)
        table.add_row(folder.name, own, job["status"], value, where)
    return table
