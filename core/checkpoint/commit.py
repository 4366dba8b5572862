"""Writing a checkpoint whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from core.checkpoint.format import (
    MODEL_FILE,
    OPTIMIZER_FILE,
    STATE_FILE,
    VERSION,
    Checkpoint,
    canonical_json,
    digest_of,
)
from core.errors import CheckpointError

TEMPORARY_PREFIX = ".saving-"
REPLACED_PREFIX = ".replaced-"


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint as `folder`.

    Everything is written to a folder beside it and flushed to disk, and that folder is then renamed: at any moment,
    `folder` is not there, or the whole old one, or the whole new one.

    Raises:
        CheckpointError: The disk is full or cannot be written; what was there before still stands.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder.parent)
    temporary = folder.parent / f"{TEMPORARY_PREFIX}{folder.name}-{os.getpid()}"
    try:
        temporary.mkdir()
        _write_files(temporary, checkpoint)
        _flush(temporary)
        replaced = folder.parent / f"{REPLACED_PREFIX}{folder.name}-{os.getpid()}"
        if folder.exists():
            folder.rename(replaced)
        temporary.rename(folder)
        _flush(folder.parent)
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(
            f"Checkpoint {folder} could not be written: {error.strerror or error}.",
            remedy="Make room or choose another hydra.run.dir; the checkpoints before it still stand.",
        ) from error


def remove_leftovers(parent: Path) -> None:
    """Removes what a killed process left of a save, and puts back what it was about to replace."""
    for path in parent.glob(f"{REPLACED_PREFIX}*"):
        original = parent / path.name.removeprefix(REPLACED_PREFIX).rpartition("-")[0]
        if original.exists():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.rename(original)
    for path in parent.glob(f"{TEMPORARY_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)


def write_atomically(path: Path, text: str) -> None:
    """Replaces a small file, flushed to disk, whole or not at all."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _write_files(folder: Path, checkpoint: Checkpoint) -> None:
    state = checkpoint.state
    contiguous = {name: np.ascontiguousarray(array) for name, array in state.parameters.items()}
    moments = {
        f"{slot}.{name}": np.ascontiguousarray(array)
        for slot, arrays in state.slots.items()
        for name, array in arrays.items()
    }
    save_file(contiguous, folder / MODEL_FILE)
    save_file(moments, folder / OPTIMIZER_FILE)
    content = {
        "version": VERSION,
        "position": dataclasses.asdict(checkpoint.position),
        "num_updates": state.num_updates,
        "slots": list(state.slots),
        "metrics": checkpoint.metrics,
        "progress": checkpoint.progress,
        "config": checkpoint.config,
        "files": {
            name: {"bytes": (folder / name).stat().st_size, "sha256": digest_of(folder / name)}
            for name in (MODEL_FILE, OPTIMIZER_FILE)
        },
    }
    text = canonical_json(content)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / STATE_FILE).write_text(json.dumps({"content": json.loads(text), "sha256": digest}, indent=1) + "\n")
    for path in folder.iterdir():
        _flush(path)


def _flush(path: Path) -> None:
    with _descriptor(path) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _descriptor(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
