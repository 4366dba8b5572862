"""One rank from its first line to its last: its log, its parts, the training, its error."""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from core.checkpoint import find_weights, load_checkpoint
from core.config.assembly import Assembly, assemble
from core.config.freeze import config_digest, load_frozen
from core.contracts import EngineRequest, RankInfo, TrainingState
from core.errors import AnycardError, ConfigError
from core.plugin_system import load_catalogue
from core.run_files import events
from core.training.trainer import Trainer


def run_rank(run_dir: Path) -> NoReturn:
    """Runs this process as one rank of the run in `run_dir` and ends it.

    Everything that it or a library prints goes to logs/rank<r>.log; its events tell the parent the rest.
    """
    config = load_frozen(run_dir)
    assembly = assemble(config, load_catalogue(), run_dir)
    rank = assembly.backend.read_rank(config.device.value)
    _redirect_output(events.rank_log(run_dir, rank.rank))
    writer = events.EventWriter(events.rank_events(run_dir, rank.rank), rank.rank, is_shared=config.nodes > 1)
    writer.write(events.STARTED, pid=os.getpid())
    trainer: list[Trainer] = []
    try:
        outcome = _train(assembly, rank, run_dir, writer, trainer)
        writer.write(events.FINISHED, outcome=outcome)
        code = _leave(assembly)
    except BaseException as error:
        _report(error, trainer, writer)
        code = error.exit_code if isinstance(error, AnycardError) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Past the interpreter's and the libraries' own end: after an error peers may be gone, and a library that waits for
    # them would wait for its timeout; after the last barrier there is nothing left to do, and Gloo's threads have been
    # seen to abort in their destructors.
    os._exit(code)


def _train(assembly: Assembly, rank: RankInfo, run_dir: Path, writer: events.EventWriter, holder: list[Trainer]) -> str:
    config = assembly.config
    writer.write(events.STAGE, text=f"loading {assembly.backend.name}")
    assembly.backend.prepare(rank, config.deterministic)
    writer.write(events.STAGE, text="joining the other ranks")
    communicator = assembly.communicator
    communicator.open(assembly.layout.mesh, rank)
    _assert_same_config(assembly, config_digest(config))
    writer.write(events.STAGE, text="building the engine")
    engine = assembly.backend.build_engine(
        EngineRequest(
            spec=assembly.spec,
            layout=assembly.layout,
            flow=assembly.flow,
            transforms=assembly.transforms,
            communicator=communicator,
            step=assembly.step,
            rank=rank,
            seed=config.seed,
        )
    )
    checkpoint = None if config.resume == "never" else load_checkpoint(Path(config.resume))
    if checkpoint is None:
        weights = find_weights(assembly.model, assembly.spec)
        engine.load((weights.load if weights else TrainingState.initial)(assembly.spec, config.seed))
    else:
        engine.load(checkpoint.state)
    trainer = Trainer(assembly, engine, rank, run_dir, writer, checkpoint)
    holder.append(trainer)
    outcome = trainer.train()
    communicator.barrier()
    engine.close()
    return outcome


def _leave(assembly: Assembly) -> int:
    """Closes the communicator; the run is complete, so what goes wrong here is told and harms nothing."""
    try:
        assembly.communicator.close()
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _assert_same_config(assembly: Assembly, digest: str) -> None:
    """Checks that all ranks read the same config; collective."""
    number = np.array([float(int(digest[:12], 16))])
    low, high = (assembly.communicator.agree(number, op)[0] for op in ("min", "max"))
    if low != high:
        raise ConfigError(
            "The ranks do not read the same config.", remedy="Give all machines the same run directory and version."
        )


def _report(error: BaseException, holder: list[Trainer], writer: events.EventWriter) -> None:
    """Writes the error into the log and tells the parent."""
    trace = "".join(traceback.format_exception(error))
    print(trace, file=sys.stderr, flush=True)
    trainer = holder[0] if holder else None
    fields: dict[str, Any] = {
        "type": type(error).__name__,
        "message": error.describe() if isinstance(error, AnycardError) else str(error),
        "trace": trace,
        "step": trainer.step if trainer else None,
        "exit_code": error.exit_code if isinstance(error, AnycardError) else 1,
        "secondary": _is_echo(error),
    }
    writer.write(events.ERROR, **fields)


def _is_echo(error: BaseException) -> bool:
    """Returns whether an error only says that another rank is gone."""
    text = str(error).lower()
    signs = ("connection closed by peer", "connection reset by peer", "broken pipe", "read timeout", "aborted by peer")
    return not isinstance(error, AnycardError) and any(sign in text for sign in signs)


def _redirect_output(path: Path) -> None:
    """Sends this process's standard output and error, also those of C libraries, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    faulthandler.enable()
