"""Putting a folder or a file in its place whole or not at all.

What is being written lies beside its final name under a hidden one, is flushed to disk and then renamed. A folder that
is there already steps aside under a hidden name until the new one has its place; if the process is killed in between,
the one aside still stands for its name (`standing_name`). What a killed process leaves is cleared by the next save. One
process at a time writes into a folder; any number may read, and reading changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from core.errors import CheckpointError

SAVING, REPLACED, REMOVING = ".saving-", ".replaced-", ".removing-"


@contextlib.contextmanager
def committed(target: Path) -> Iterator[Path]:
    """Yields an empty folder for the body to fill, which then becomes `target`.

    At any moment `target`, or the folder that stands for it, is the whole old one or the whole new one. If anything
    fails, the new one is removed.

    Raises:
        OSError: The disk is full or cannot be written.
    """
    parent = target.parent
    _make_folder(parent)
    clear_leftovers(parent)
    temporary = _hidden(SAVING, target)
    try:
        temporary.mkdir()
        yield temporary
        for path in (*temporary.iterdir(), temporary):
            _flush(path)
        aside = _rename_over(temporary, target)
        _flush(parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)


def write_file(path: Path, text: str) -> None:
    """Replaces a small file, flushed to disk, whole or not at all.

    Raises:
        OSError: The disk is full or cannot be written; the old file still stands.
    """
    temporary = _hidden(SAVING, path)
    try:
        temporary.write_text(text, encoding="utf-8")
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Removes a folder; it is hidden first, so that no half of it is ever seen.

    Raises:
        OSError: The folder cannot be renamed.
    """
    hidden = _hidden(REMOVING, path)
    path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def standing_name(path: Path) -> str:
    """Returns the name for which `path` stands: its own, or that of a folder that it was to make room for."""
    if not path.name.startswith(REPLACED):
        return path.name
    return path.name.removeprefix(REPLACED).rpartition("-")[0]


def clear_leftovers(parent: Path) -> None:
    """Removes what a killed process left of a save, and puts back what it was about to replace."""
    for path in parent.glob(f"{REPLACED}*"):
        original = parent / standing_name(path)
        if original.exists():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.rename(original)
    for prefix in (SAVING, REMOVING):
        for path in parent.glob(f"{prefix}*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def explained(problem: str) -> Iterator[None]:
    """Turns a failure to write in the body into an error for the user.

    Raises:
        CheckpointError: The body could not write; says why, and that nothing was lost.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise CheckpointError(
            f"{problem}: {reason or error}.",
            remedy="Make room or choose another hydra.run.dir; the checkpoints that were there before still stand.",
        ) from error


def _rename_over(temporary: Path, target: Path) -> Path | None:
    """Gives a folder its final name and returns where the one that had it went."""
    aside = _hidden(REPLACED, target) if target.exists() else None
    if aside is not None:
        target.rename(aside)
    try:
        temporary.rename(target)
    except OSError:
        if aside is not None:
            aside.rename(target)
        raise
    return aside


def _hidden(prefix: str, path: Path) -> Path:
    return path.with_name(f"{prefix}{path.name}-{uuid.uuid4().hex[:12]}")


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
