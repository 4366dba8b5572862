"""Reading a checkpoint, with every byte verified first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from core.checkpoint.checkpoint import Checkpoint, Position
from core.checkpoint.format import (
    MODEL_FILE,
    OPTIMIZER_FILE,
    STATE_FILE,
    TENSOR_FILES,
    VERSION,
    digest_of,
    state_text,
)
from core.contracts import LossScale, TrainingState
from core.errors import CheckpointError


def load_checkpoint(folder: Path) -> Checkpoint:
    """Returns the checkpoint that lies in `folder`.

    Raises:
        CheckpointError: A file is missing, truncated, changed or of another version; names the folder and the file.
    """
    content = verify_checkpoint(folder)
    parameters = _load_tensors(folder, MODEL_FILE)
    moments = _load_tensors(folder, OPTIMIZER_FILE)
    try:
        scale = content.get("loss_scale")
        buffers = {name: parameters.pop(name) for name in content.get("buffers", [])}
        slots: dict[str, dict[str, Any]] = {slot: {} for slot in content["slots"]}
        for name, array in moments.items():
            slot, _, parameter = name.partition(".")
            slots[slot][parameter] = array
        return Checkpoint(
            position=Position(**content["position"]),
            state=TrainingState(
                parameters, slots, content["num_updates"], buffers, LossScale(**scale) if scale else None
            ),
            progress=content["progress"],
            metrics=content["metrics"],
            config=content["config"],
        )
    except (KeyError, TypeError) as error:
        raise _damaged(folder, STATE_FILE, f"not what this version writes ({error})") from None


def verify_checkpoint(folder: Path) -> dict[str, Any]:
    """Returns the content of state.json after checking every file against it.

    Raises:
        CheckpointError: As `load_checkpoint`.
    """
    content = _read_state(folder)
    for name in TENSOR_FILES:
        expected = content["files"][name]
        path = folder / name
        try:
            size = path.stat().st_size
            if size != expected["bytes"]:
                raise _damaged(folder, name, f"{size} bytes instead of {expected['bytes']}")
            if digest_of(path) != expected["sha256"]:
                raise _damaged(folder, name, "changed since it was written")
        except OSError as error:
            raise _damaged(folder, name, _reason(error)) from None
    return content


def _read_state(folder: Path) -> dict[str, Any]:
    """Returns the content of state.json after checking it against its own digest."""
    try:
        text = (folder / STATE_FILE).read_bytes()
        content: dict[str, Any] = json.loads(text)["content"]
        version = content["version"]
        is_whole = state_text(content).encode() == text
        files = sorted(content["files"])
    except OSError as error:
        raise _damaged(folder, STATE_FILE, _reason(error)) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(folder, STATE_FILE, f"not what was written ({type(error).__name__}: {error})") from None
    if version != VERSION:
        raise CheckpointError(
            f"Checkpoint {folder} cannot be read: {STATE_FILE} is of another format version.",
            received=version,
            allowed=VERSION,
            remedy="Read it with the version of anycard that wrote it.",
        )
    if not is_whole:
        raise _damaged(folder, STATE_FILE, "changed since it was written")
    if files != sorted(TENSOR_FILES):
        raise _damaged(folder, STATE_FILE, f"its manifest lists {', '.join(files) or 'nothing'}")
    return content


def _load_tensors(folder: Path, name: str) -> dict[str, npt.NDArray[np.float32]]:
    try:
        arrays: dict[str, npt.NDArray[np.float32]] = load_file(folder / name)
    except (OSError, SafetensorError) as error:
        raise _damaged(folder, name, str(error)) from None
    return arrays


def _reason(error: OSError) -> str:
    return "missing" if isinstance(error, FileNotFoundError) else error.strerror or str(error)


def _damaged(folder: Path, file: str, finding: str) -> CheckpointError:
    return CheckpointError(
        f"Checkpoint {folder} is damaged: {file}: {finding}.",
        remedy="Use an older one, or resume=auto, which passes over damaged ones.",
    )
