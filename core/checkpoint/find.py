"""Finding the checkpoint that a user means."""

from __future__ import annotations

from pathlib import Path

from core.checkpoint.format import STATE_FILE, step_of
from core.checkpoint.load import verify_checkpoint
from core.checkpoint.store import BEST, LAST, CheckpointStore
from core.errors import CheckpointError

FOLDER = "checkpoints"
MOST_NAMES = 8


def find_checkpoint(path: Path) -> tuple[Path, list[CheckpointError]]:
    """Returns the whole checkpoint that a user means by `path`, and what is wrong with those passed over.

    A path names a checkpoint's folder, a run directory or its checkpoints/ (the newest whole one is taken), or
    `last` or `best` in either of these.

    Raises:
        CheckpointError: There is nothing of the kind, or the checkpoint that is named is damaged.
    """
    path = path.expanduser().absolute()
    if (path / STATE_FILE).exists() or step_of(path.name) is not None:
        if not path.is_dir():
            raise _not_there(path, [])
        verify_checkpoint(path)
        return path, []
    damaged: list[CheckpointError] = []
    if path.name in (LAST, BEST) and not path.exists():
        for store in _stores(path.parent):
            pointed = store.pointed(path.name)
            if pointed is not None:
                verify_checkpoint(pointed)
                return pointed, []
    else:
        for store in _stores(path):
            found, reasons = store.newest()
            damaged += reasons
            if found is not None:
                return found, damaged
    raise _not_there(path, damaged)


def _stores(path: Path) -> list[CheckpointStore]:
    """Returns where checkpoints may lie: the path is a run directory, or its checkpoints/."""
    return [CheckpointStore(folder, keep=1) for folder in (path / FOLDER, path)]


def _not_there(path: Path, damaged: list[CheckpointError]) -> CheckpointError:
    nearest = next(folder for folder in (path, *path.parents) if folder.is_dir())
    folder = nearest / FOLDER if (nearest / FOLDER).is_dir() else nearest
    names = sorted(item.name for item in folder.iterdir() if not item.name.startswith("."))
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    reasons = "; ".join(error.problem.rstrip(".") for error in damaged)
    return CheckpointError(
        f"There is no whole checkpoint at {path}.",
        received=reasons or f"{folder} holds {shown or 'nothing'}",
        allowed="a checkpoint's folder, a run directory (its newest whole one), or last or best in its checkpoints/",
        remedy="Give another path, or start anew with resume=never.",
    )
