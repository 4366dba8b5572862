"""Each run has one run directory, and no other live run writes into it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from core.config.freeze import FILE_NAME
from core.errors import ConfigError

LOCK_NAME = ".lock"
MOST_SUFFIXES = 1000


@contextlib.contextmanager
def claim(wanted: Path, is_explicit: bool, resumes: bool) -> Iterator[Path]:
    """Takes a run directory for the duration of the context, under an exclusive lock.

    Two runs that are started in the same second want the same directory; the second gets a suffix.

    Args:
        wanted: The directory; it may exist already.
        is_explicit: Whether the user named it, so that another name would be a surprise.
        resumes: Whether a run that is there already is to be continued.

    Yields:
        The directory. If the body raises before it has written a config, an empty directory is removed again.

    Raises:
        ConfigError: The user named a directory that holds another run, or that a live run is using.
    """
    for attempt in range(1, MOST_SUFFIXES):
        folder = wanted if attempt == 1 else wanted.with_name(f"{wanted.name}-{attempt}")
        lock = _try_lock(folder / LOCK_NAME)
        is_taken = lock is None
        has_run = (folder / FILE_NAME).exists()
        if lock is not None:
            if not has_run or resumes:
                break
            os.close(lock)
        if is_explicit:
            raise ConfigError(
                f"The run directory {folder} "
                + ("is used by another live run." if is_taken else "holds a run already."),
                remedy="Choose another hydra.run.dir, or continue the run that is there with resume=auto.",
            )
    else:
        raise ConfigError(f"No free run directory beside {wanted}.")
    try:
        yield folder
    finally:
        (folder / LOCK_NAME).unlink(missing_ok=True)
        os.close(lock)
        remove_if_empty(folder)


def _try_lock(path: Path) -> int | None:
    """Returns the descriptor of a lock file that this process now holds, None if another does.

    The holder removes the file when it ends, so a lock counts only if the file that was locked is still the one that
    the path names.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == path.stat().st_ino:
                return lock
        except BlockingIOError:
            os.close(lock)
            return None
        except FileNotFoundError:
            pass
        os.close(lock)


def remove_if_empty(folder: Path) -> None:
    """Removes a directory that nothing was written into, and its parent if that is then empty too."""
    for path in (folder, folder.parent):
        try:
            path.rmdir()
        except OSError:
            return
