"""What Hydra calls for each job: a single run, or one of a multirun."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from core.config.compose import plain_values
from core.config.schema import Launcher, OnError, RunConfig
from core.config.typed import build_run_config
from core.errors import AnycardError, ConfigError
from core.launching.member import check_cluster, machine_of
from core.launching.run import RunStopped, run
from core.launching.run_directory import claim, remove_if_empty
from core.launching.serving import serve

ERROR_FILE = "error.log"
JOB_FILE = "job.json"


class JobFailed(RuntimeError):
    """Tells Hydra's sweeper that a job failed or did not start; the error itself has been told already."""


class RunEnded(BaseException):
    """Carries an error past Hydra, which would print a line of its own for an `Exception`, or go on with a sweep."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def run_job(node: DictConfig) -> float | None:
    """Runs one composed config and returns the number that a sweep optimises.

    In a single run an error ends the process with its exit code; in a multirun it is told at once, written into the
    job's folder and raised, so that Hydra's sweeper knows. On a machine that only serves there is no number.
    """
    hydra = HydraConfig.get()
    output = Path(hydra.runtime.output_dir)
    if hydra.mode == RunMode.MULTIRUN:
        return _run_in_sweep(node, output, hydra)
    is_explicit = any(item.startswith("hydra.run.dir=") for item in hydra.overrides.hydra)
    try:
        config = build_run_config(plain_values(node))
        check_cluster(config, _as_given(hydra), is_sweep=False)
        if config.launcher is Launcher.external:
            raise ConfigError(
                "launcher=external must stand on the command line, among arguments of the form KEY=VALUE alone.",
                remedy="Leave out options, and what an experiment's file says of launcher.",
            )
        if not (member := machine_of(config)).leads:
            serve(config, output, member)
            return None
        with claim(output, is_explicit, resumes=config.resume == "auto") as run_dir:
            return _objective(run(config, run_dir), config)
    except Exception as error:
        remove_if_empty(output)
        raise RunEnded(error) from error


def _run_in_sweep(node: DictConfig, output: Path, hydra: Any) -> float | None:
    """Runs one job of a sweep and leaves its result where the sweep's table finds it."""
    overrides = list(hydra.overrides.task)
    stops = OmegaConf.select(node, "sweep.on_error") == OnError.stop.value
    with claim(output, is_explicit=False, resumes=OmegaConf.select(node, "resume") == "auto") as run_dir:
        if stops and any(Path(hydra.sweep.dir).glob(f"*/{ERROR_FILE}")):
            _write_job(run_dir, overrides, "skipped", "an earlier job failed, and sweep.on_error=stop", None)
            raise JobFailed("skipped")
        print(f"job {output.name}: {' '.join(overrides)}", flush=True)
        try:
            config = build_run_config(plain_values(node))
            check_cluster(config, _as_given(hydra), is_sweep=True)
            is_alone = "basic_launcher" in str(hydra.launcher.get("_target_", ""))
            value = _objective(run(config, run_dir, is_alone), config)
        except RunStopped as error:
            _record_failure(error, run_dir, overrides)
            raise RunEnded(error) from error  # the user means the sweep, not this job
        except Exception as error:
            _record_failure(error, run_dir, overrides)
            raise JobFailed(str(error)) from error
        _write_job(run_dir, overrides, "done", "", value)
        return value


def _as_given(hydra: Any) -> list[str]:
    """Returns Hydra's own overrides as the user wrote them, with what they interpolate still in place."""
    overrides: Any = OmegaConf.to_container(hydra.overrides.hydra, resolve=False)
    return list(overrides)


def _objective(summary: dict[str, Any], config: RunConfig) -> float | None:
    value = summary[config.objective]
    return None if value is None else float(value)


def _record_failure(error: BaseException, run_dir: Path, overrides: list[str]) -> None:
    """Tells of a failed job on the screen and in its folder."""
    if isinstance(error, AnycardError):
        text = error.describe()
    elif isinstance(error, RunStopped):
        text = str(error)
    else:
        text = "".join(traceback.format_exception(error)).rstrip()
    print(f"job {' '.join(overrides)} failed:\n{text}", file=sys.stderr, flush=True)
    (run_dir / ERROR_FILE).write_text(text + "\n")
    _write_job(run_dir, overrides, "failed", text.splitlines()[0], None)


def _write_job(run_dir: Path, overrides: list[str], status: str, message: str, value: float | None) -> None:
    record = {"overrides": overrides, "status": status, "message": message, "objective": value}
    (run_dir / JOB_FILE).write_text(json.dumps(record, indent=2) + "\n")
