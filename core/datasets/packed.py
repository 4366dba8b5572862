"""Making a folder of arrays once: it is there whole or not at all, and is used again where its manifest fits.

A folder's name says what it was made from, so that other options give another folder. One process at a time makes
anything below the same parent; whoever comes meanwhile waits and then finds it made.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.checkpoint.commit import committed
from core.errors import DataError

MANIFEST, LOCK = "manifest.json", ".lock"
HASH_BYTES = 2**20  # read at once


def cache_root() -> Path:
    """Returns where made arrays lie when the config does not say: $XDG_CACHE_HOME/anycard or ~/.cache/anycard."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "anycard"


def digest_of(value: object) -> str:
    """Returns 16 hex digits that stand for plain JSON values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def packed(
    folder: Path, made_from: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Returns the manifest of `folder`, which is made first if it is not there.

    Args:
        folder: Where the arrays lie or shall lie; its name changes with `made_from`.
        made_from: Plain JSON values that decide what the arrays hold.
        make: Fills an empty folder with files; returns plain JSON values to keep under `found`, or None.

    Returns:
        `made_from`, `found`, and `files`: for each its `bytes` and `sha256`.

    Raises:
        DataError: The folder is damaged, was made from something else, or cannot be written; or `make` raised it.
    """
    if not folder.exists():
        with _writing(folder.parent), _locked(folder.parent):
            if not folder.exists():
                with committed(folder) as temporary:
                    found = make(temporary)
                    files = {path.name: _describe(path) for path in sorted(temporary.iterdir())}
                    manifest = {"made_from": dict(made_from), "found": dict(found or {}), "files": files}
                    (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return _checked(folder, made_from)


def open_packed(folder: Path, name: str) -> npt.NDArray[Any]:
    """Returns the array `name`.npy of a made folder, memory-mapped."""
    array: npt.NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array


def _checked(folder: Path, made_from: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the manifest if it fits; files are checked by size, which costs nothing."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        files = {name: int(entry["bytes"]) for name, entry in manifest["files"].items()}
        was_made_from = manifest["made_from"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} cannot be read.", received=error, remedy=f"Remove {folder}; it is made again."
        ) from None
    if was_made_from != json.loads(json.dumps(dict(made_from))):
        raise DataError(
            f"{folder} was made from something else.",
            received=was_made_from,
            allowed=dict(made_from),
            remedy="Remove it; it is made again.",
        )
    for name, size in files.items():
        file = folder / name
        real = file.stat().st_size if file.is_file() else None
        if real != size:
            raise DataError(
                f"{file} is {'missing' if real is None else 'damaged'}.",
                received=None if real is None else f"{real} bytes",
                allowed=f"{size} bytes",
                remedy=f"Remove {folder}; it is made again.",
            )
    return manifest


def _describe(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASH_BYTES):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


@contextlib.contextmanager
def _locked(parent: Path) -> Iterator[None]:
    """Holds the one right to make something below `parent`; waits for it."""
    with (parent / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _writing(parent: Path) -> Iterator[None]:
    """Makes `parent`; turns a failure to write in the body into an error for the user."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(
            f"Arrays cannot be written below {parent}: {error.strerror or error}.",
            remedy="Make room, or choose another folder (data.root or data.cache).",
        ) from error
