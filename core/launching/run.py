"""One run in the parent: check everything, freeze the config, start the ranks, watch them, read the result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.checkpoint import CheckpointStore, find_checkpoint, find_weights, load_checkpoint
from core.config.assembly import Assembly, assemble
from core.config.freeze import save_frozen
from core.config.schema import Device, RunConfig
from core.contracts import DESCRIPTION_FILE, TENSORS_FILE
from core.data import check_dataset
from core.errors import ConfigError, RankFailedError
from core.launching.command import launch_command
from core.launching.display import Display, build_display
from core.launching.failure import error_of, first_failure
from core.launching.gathering import BEACON, END_FILE, Gathering
from core.launching.member import Member, machine_of
from core.launching.tensorboard import TensorBoard
from core.launching.watch import LAUNCHER_LOG, Watch
from core.plugin_system import load_catalogue
from core.run_files.events import LOG_FOLDER, STOP_FILE
from core.training.sample_stream import build_batch_plan, check_same_stream, sample_stream
from core.training.summary import OBJECTIVES, SUMMARY_FILE


class RunStopped(Exception):
    """A run that the user stopped by a signal, after its checkpoint."""

    def __init__(self, number: int, run_dir: Path) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.signal = number
        self.run_dir = run_dir


def run(config: RunConfig, run_dir: Path, is_alone: bool = True, member: Member | None = None) -> dict[str, Any]:
    """Runs a config to its end in `run_dir`, as the member that leads, and returns its summary.

    Args:
        config: What to run.
        run_dir: An existing directory that no other run uses.
        is_alone: Whether the terminal is this run's alone, so that a bar may move on it.
        member: Who this process is among those that run the config; by default, what the config says of this machine.

    Raises:
        AnycardError: The config cannot be run, or a rank failed.
        RunStopped: The user sent SIGINT or SIGTERM.
    """
    with tempfile.TemporaryDirectory(prefix=".module-", dir=run_dir) as folder:
        return _run(config, run_dir, is_alone, member or machine_of(config), Path(folder))


def _run(config: RunConfig, run_dir: Path, is_alone: bool, member: Member, folder: Path) -> dict[str, Any]:
    """Runs a config; a user's class is described into `folder` until the run is known to start."""
    assembly = assemble(config, load_catalogue(), folder)
    stream = check_run(assembly)
    store = CheckpointStore(run_dir / "checkpoints", keep=config.checkpoint.keep)
    resume_from, notes = find_resume(assembly.config.resume, store)
    if resume_from is not None:
        checkpoint = load_checkpoint(resume_from)
        checkpoint.check_fits(assembly.spec, assembly.step.slots)
        check_same_stream(stream, checkpoint.progress["stream"])
    assembly = replace(assembly, config=replace(assembly.config, resume=str(resume_from) if resume_from else "never"))
    command = launch_command(assembly, run_dir, member)
    prepare_run_dir(assembly.config, run_dir, folder)
    hidden = [name for _, backend, _ in load_catalogue().registries["backend"] for name in backend.modules]
    with (
        Gathering(run_dir, member, config) as gathering,
        build_display(is_alone) as display,
        contextlib.closing(TensorBoard(run_dir, hidden)) as board,
    ):
        display.start(assembly, run_dir, [*notes, *notices(assembly, config.device)])
        gathering.wait(display.say)

        def tick() -> None:
            gathering.tick()
            display.tick()

        watch = Watch(run_dir, assembly.config.cards, member, (display.take, board.take), tick)
        launcher_code = watch.run(command)
        if watch.failures and first_failure(watch.failures).is_secondary and (loss := gathering.loss()):
            raise loss
        return _result(watch, launcher_code, run_dir, assembly, display)


def check_run(assembly: Assembly) -> dict[str, Any]:
    """Checks what can be checked before a process starts: the data, the batches, and that the objective will exist.

    Returns:
        What fixes the order of samples.

    Raises:
        CheckpointError: Published weights are missing or do not fit.
        DataError: The data is missing, damaged or mislabelled.
        ConfigError: A key would be without effect.
    """
    config = assembly.config
    find_weights(assembly.model, assembly.spec)
    if config.objective not in OBJECTIVES:
        raise ConfigError("'objective' names no number of the summary.", received=config.objective, allowed=OBJECTIVES)
    splits = ("train", "eval") if config.eval.every_epochs else ("train",)
    counts = check_dataset(assembly.dataset, splits, assembly.transforms)
    build_batch_plan(assembly, counts["train"])
    return sample_stream(assembly, counts["train"])


def find_resume(resume: str, store: CheckpointStore) -> tuple[Path | None, list[str]]:
    """Returns the checkpoint to start from, None for none, and what a user should know of the choice.

    Raises:
        CheckpointError: The path that was given holds no whole checkpoint.
    """
    if resume == "never":
        return None, []
    if resume == "auto":
        found, damaged = store.newest()
        notes = [f"passed over a damaged checkpoint: {item}" for item in damaged]
        notes.append(f"resume=auto: continues from {found}" if found else "resume=auto: no checkpoint yet, starts anew")
        return found, notes
    path, damaged = find_checkpoint(Path(resume))
    return path, [*(f"passed over a damaged checkpoint: {item}" for item in damaged), f"resume: continues from {path}"]


def prepare_run_dir(config: RunConfig, run_dir: Path, folder: Path) -> None:
    """Writes the frozen config, takes in the files of a described class from `folder`, and clears what an earlier life
    of the run left for its processes.
    """
    for name in (TENSORS_FILE, DESCRIPTION_FILE):
        if (folder / name).exists():
            (folder / name).replace(run_dir / name)
        else:
            (run_dir / name).unlink(missing_ok=True)
    logs = run_dir / LOG_FOLDER
    logs.mkdir(exist_ok=True)
    for stale in (*logs.glob("*.jsonl"), *logs.glob(f"{BEACON}*.json"), logs / END_FILE, run_dir / STOP_FILE):
        stale.unlink(missing_ok=True)
    save_frozen(config, run_dir)


def notices(assembly: Assembly, wanted: Device) -> list[str]:
    """Returns what a user should know before the run, one sentence each.

    Args:
        assembly: The parts of the run, with the device that was found.
        wanted: The device that the user asked for.
    """
    config = assembly.config
    cores = os.cpu_count() or 1
    found = list(assembly.layout.notes)
    weights = find_weights(assembly.model, assembly.spec)
    if weights is not None:
        fresh = f"; {', '.join(weights.fresh)} start anew" if weights.fresh else ""
        found.append(f"weights from {weights.path}{fresh}")
    if wanted is Device.auto:
        backend = assembly.backend
        better = backend.devices[: backend.devices.index(config.device.value)]
        reasons = "; ".join(f"{device}: {backend.probe(device).missing[0]}" for device in better)
        found.append(f"device=auto takes {config.device.value}" + (f" ({reasons})" if reasons else ""))
    if config.device.value == "cpu" and config.cards_per_node > cores:
        found.append(
            f"{config.cards_per_node} cards share {cores} CPU cores: this shows that it works, not how fast it is"
        )
    return found


def _result(watch: Watch, launcher_code: int, run_dir: Path, assembly: Assembly, display: Display) -> dict[str, Any]:
    """Returns the summary, or raises what went wrong."""
    world_size = assembly.config.cards
    outcomes = set(watch.outcomes.values())
    whole = len(watch.outcomes) == world_size
    if watch.stop_signal is not None and (not watch.failures or "stopped" in outcomes):
        raise RunStopped(watch.stop_signal, run_dir)
    if watch.failures:
        raise error_of(first_failure(watch.failures), run_dir, world_size)
    if not whole:
        log = run_dir / LOG_FOLDER / ".".join(LAUNCHER_LOG)
        tail = "\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-6:])
        raise RankFailedError(
            f"The launcher ended with code {launcher_code} before the run was complete.\n{tail}",
            remedy=f"Its log: {log}",
        )
    if launcher_code:
        display.say(f"note: a rank ended badly after the run was complete; see {run_dir / LOG_FOLDER}")
    summary: dict[str, Any] = json.loads((run_dir / SUMMARY_FILE).read_text())
    display.end(summary, run_dir)
    return summary
