"""The checkpoints of one run: where they lie, which is the newest whole one, which are kept."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from core.checkpoint.commit import remove_leftovers, save_checkpoint, write_atomically
from core.checkpoint.format import STATE_FILE, Checkpoint
from core.checkpoint.load import verify_checkpoint
from core.errors import CheckpointError, ConfigError

FOLDER = "checkpoints"
LAST, BEST = "last", "best"


class CheckpointStore:
    """The folder checkpoints/ of a run.

    Args:
        folder: Where the checkpoints lie; made at the first save.
        keep: How many of the newest stay, beside the best.

    Raises:
        ConfigError: `keep` is below 1.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ConfigError("'checkpoint.keep' is out of range.", received=keep, allowed="at least 1")
        self._folder = folder
        self._keep = keep

    def save(self, checkpoint: Checkpoint, is_best: bool) -> Path:
        """Saves a checkpoint, points last.json (and best.json) to it, and then removes those that have had their time.

        Raises:
            CheckpointError: It could not be written; the others still stand.
        """
        path = self._folder / f"step-{checkpoint.position.step:08d}"
        save_checkpoint(path, checkpoint)
        pointer = json.dumps({"checkpoint": path.name, "metrics": checkpoint.metrics}) + "\n"
        for name in (LAST, *((BEST,) if is_best else ())):
            write_atomically(self._folder / f"{name}.json", pointer)
        self._prune()
        return path

    def newest(self) -> tuple[Path | None, list[CheckpointError]]:
        """Returns the newest whole checkpoint, None if there is none, and what is wrong with newer ones."""
        damaged: list[CheckpointError] = []
        if self._folder.is_dir():
            remove_leftovers(self._folder)
        for path in self.paths():
            try:
                verify_checkpoint(path)
            except CheckpointError as error:
                damaged.append(error)
                continue
            return path, damaged
        return None, damaged

    def paths(self) -> list[Path]:
        """Returns the checkpoints' folders, the newest first."""
        found = [path for path in self._folder.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name)]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")), reverse=True)

    def pointed(self, name: str) -> Path | None:
        """Returns the checkpoint that last.json or best.json names, None without such a file."""
        try:
            return self._folder / str(json.loads((self._folder / f"{name}.json").read_text())["checkpoint"])
        except (OSError, ValueError, KeyError):
            return None

    def _prune(self) -> None:
        best = self.pointed(BEST)
        for path in self.paths()[self._keep :]:
            if path != best:
                shutil.rmtree(path, ignore_errors=True)


def find_checkpoint(path: Path) -> tuple[Path, list[CheckpointError]]:
    """Returns the whole checkpoint that a user means by `path`, and damaged ones that were passed over.

    A path names a checkpoint's folder, a run directory or its checkpoints/ (the newest whole one is taken), or
    `last` or `best` in checkpoints/.

    Raises:
        CheckpointError: There is nothing of the kind, or the named checkpoint is damaged.
    """
    path = path.expanduser().absolute()
    if path.name in (LAST, BEST) and not path.exists():
        pointed = CheckpointStore(path.parent, keep=1).pointed(path.name)
        path = pointed or path
    if (path / STATE_FILE).exists() or path.name.startswith("step-"):
        verify_checkpoint(path)
        return path, []
    for folder in (path / FOLDER, path):
        found, damaged = CheckpointStore(folder, keep=1).newest()
        if found is not None:
            return found, damaged
    there = ", ".join(sorted(item.name for item in path.iterdir())[:8]) if path.is_dir() else "nothing"
    raise CheckpointError(
        f"There is no whole checkpoint at {path}.",
        received=f"there is {there or 'an empty folder'}",
        allowed="a run directory, or a checkpoint's folder in its checkpoints/",
    )
