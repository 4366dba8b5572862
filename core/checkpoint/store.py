"""The checkpoints of one run: where they lie, which is the newest whole one, which are kept."""

from __future__ import annotations

import json
from pathlib import Path

from core.checkpoint.checkpoint import Checkpoint
from core.checkpoint.commit import explained, remove_folder, standing_name, write_file
from core.checkpoint.format import plain_json, step_name, step_of
from core.checkpoint.load import verify_checkpoint
from core.checkpoint.save import save_checkpoint
from core.errors import CheckpointError, ConfigError

LAST, BEST = "last", "best"


class CheckpointStore:
    """The folder checkpoints/ of a run.

    Args:
        folder: Where the checkpoints lie; made at the first save.
        keep: How many of the newest whole ones stay, beside the best.

    Raises:
        ConfigError: `keep` is below 1.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ConfigError("'checkpoint.keep' is out of range.", received=keep, allowed="at least 1")
        self._folder = folder
        self._keep = keep
        self._whole: set[Path] = set()

    def save(self, checkpoint: Checkpoint, is_best: bool) -> Path:
        """Saves a checkpoint, points last.json (and best.json) to it, and then removes those that have had their time.

        Raises:
            CheckpointError: The disk is full or cannot be written; the others still stand.
        """
        path = self._folder / step_name(checkpoint.position.step)
        save_checkpoint(path, checkpoint)
        self._whole.add(path)
        pointer = plain_json({"checkpoint": path.name, "metrics": checkpoint.metrics}) + "\n"
        for name in (LAST, *((BEST,) if is_best else ())):
            with explained(f"{name}.json could not be pointed to checkpoint {path}, which is whole"):
                write_file(self._folder / f"{name}.json", pointer)
        with explained(f"Checkpoint {path} is whole, but an old one beside it could not be removed"):
            self._prune(path)
        return path

    def newest(self) -> tuple[Path | None, list[CheckpointError]]:
        """Returns the newest whole checkpoint, None if there is none, and what is wrong with newer ones."""
        damaged: list[CheckpointError] = []
        for path in self.paths():
            try:
                verify_checkpoint(path)
            except CheckpointError as error:
                damaged.append(error)
                continue
            self._whole.add(path)
            return path, damaged
        return None, damaged

    def paths(self) -> list[Path]:
        """Returns the checkpoints' folders, the newest first; at most one a step."""
        found: dict[int, Path] = {}
        for path in self._folder.glob("*"):
            name = standing_name(path)
            step = step_of(name)
            if step is not None and path.is_dir() and (path.name == name or step not in found):
                found[step] = path
        return [found[step] for step in sorted(found, reverse=True)]

    def pointed(self, name: str) -> Path | None:
        """Returns the checkpoint that last.json or best.json names, None if there is no such file or checkpoint."""
        target = self._target(name)
        return next((path for path in self.paths() if standing_name(path) == target), None)

    def _target(self, name: str) -> str | None:
        try:
            return str(json.loads((self._folder / f"{name}.json").read_bytes())["checkpoint"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _prune(self, saved: Path) -> None:
        """Removes what is older than the newest whole ones, but neither the best nor the one just saved."""
        best = self._target(BEST)
        if best is None and (self._folder / f"{BEST}.json").exists():
            return  # which is the best cannot be told, so none is removed
        num_whole = 0
        for path in self.paths():
            if num_whole < self._keep:
                num_whole += self._is_whole(path)
            elif path != saved and path.name != best:
                remove_folder(path)

    def _is_whole(self, path: Path) -> bool:
        """Returns whether a checkpoint is whole; those of this process are, others are verified once."""
        if path not in self._whole:
            try:
                verify_checkpoint(path)
            except CheckpointError:
                return False
            self._whole.add(path)
        return True
