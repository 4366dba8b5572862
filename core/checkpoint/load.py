"""Reading a checkpoint, with every byte verified first."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file

from core.checkpoint.format import (
    MODEL_FILE,
    OPTIMIZER_FILE,
    STATE_FILE,
    VERSION,
    Checkpoint,
    Position,
    canonical_json,
    digest_of,
)
from core.contracts import TrainingState
from core.errors import CheckpointError


def load_checkpoint(folder: Path) -> Checkpoint:
    """Returns the checkpoint that lies in `folder`.

    Raises:
        CheckpointError: A file is missing, truncated, changed or of another version; names the folder and the file.
    """
    content = verify_checkpoint(folder)
    try:
        parameters = load_file(folder / MODEL_FILE)
        moments = load_file(folder / OPTIMIZER_FILE)
    except (OSError, SafetensorError) as error:
        raise _damaged(folder, "safetensors file", str(error)) from None
    slots: dict[str, dict[str, Any]] = {slot: {} for slot in content["slots"]}
    for name, array in moments.items():
        slot, _, parameter = name.partition(".")
        slots[slot][parameter] = array
    return Checkpoint(
        position=Position(**content["position"]),
        state=TrainingState(parameters, slots, content["num_updates"]),
        progress=content["progress"],
        metrics=content["metrics"],
        config=content["config"],
    )


def verify_checkpoint(folder: Path) -> dict[str, Any]:
    """Returns the content of state.json after checking every file against it.

    Raises:
        CheckpointError: As `load_checkpoint`.
    """
    try:
        record = json.loads((folder / STATE_FILE).read_bytes())
        content: dict[str, Any] = record["content"]
        digest = hashlib.sha256(canonical_json(content).encode()).hexdigest()
        is_whole = digest == record["sha256"]
    except OSError as error:
        raise _damaged(folder, STATE_FILE, error.strerror or str(error)) from None
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, STATE_FILE, f"not what was written ({error})") from None
    if not is_whole:
        raise _damaged(folder, STATE_FILE, "changed since it was written")
    if content["version"] != VERSION:
        raise CheckpointError(
            f"Checkpoint {folder} has format version {content['version']}.", allowed=f"version {VERSION}"
        )
    for name, expected in content["files"].items():
        path = folder / name
        if not path.is_file():
            raise _damaged(folder, name, "missing")
        size = path.stat().st_size
        if size != expected["bytes"]:
            raise _damaged(folder, name, f"{size} bytes instead of {expected['bytes']}")
        if digest_of(path) != expected["sha256"]:
            raise _damaged(folder, name, "changed since it was written")
    return content


def _damaged(folder: Path, file: str, finding: str) -> CheckpointError:
    return CheckpointError(
        f"Checkpoint {folder} is damaged: {file}: {finding}.",
        remedy="Use an older one, or resume=auto, which passes over damaged ones.",
    )
