"""Writing a checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from core.checkpoint.checkpoint import Checkpoint
from core.checkpoint.commit import committed, explained
from core.checkpoint.format import (
    MODEL_FILE,
    OPTIMIZER_FILE,
    STATE_FILE,
    TENSOR_FILES,
    VERSION,
    digest_of,
    state_text,
)
from core.errors import PluginError

Arrays = dict[str, npt.NDArray[np.float32]]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint as `folder`, whole or not at all; one that is there already is replaced.

    Raises:
        CheckpointError: The disk is full or cannot be written; what was there before still stands.
        PluginError: A parameter or a moment is not float32.
    """
    with explained(f"Checkpoint {folder} could not be written"), committed(folder) as temporary:
        _write_files(temporary, checkpoint)


def _write_files(folder: Path, checkpoint: Checkpoint) -> None:
    state = checkpoint.state
    moments = {f"{slot}.{name}": array for slot, arrays in state.slots.items() for name, array in arrays.items()}
    save_file(_storable(state.parameters) | _in_order(state.buffers), folder / MODEL_FILE)
    save_file(_storable(moments), folder / OPTIMIZER_FILE)
    content = {
        "version": VERSION,
        "position": dataclasses.asdict(checkpoint.position),
        "num_updates": state.num_updates,
        "loss_scale": None if state.loss_scale is None else dataclasses.asdict(state.loss_scale),
        "slots": list(state.slots),
        "buffers": sorted(state.buffers),
        "metrics": checkpoint.metrics,
        "progress": checkpoint.progress,
        "config": checkpoint.config,
        "files": {
            name: {"bytes": (folder / name).stat().st_size, "sha256": digest_of(folder / name)} for name in TENSOR_FILES
        },
    }
    (folder / STATE_FILE).write_text(state_text(content), encoding="utf-8")
    # safetensors makes its files readable by their owner alone; a checkpoint follows the umask, as any file does.
    mode = (folder / STATE_FILE).stat().st_mode & 0o777
    for name in TENSOR_FILES:
        (folder / name).chmod(mode)


def _storable(arrays: Arrays) -> Arrays:
    """Returns arrays as safetensors needs them: it writes the memory of one that is not contiguous as it lies."""
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise PluginError(
                f"The engine handed over '{name}' in another type than its contract says.",
                received=array.dtype,
                allowed="float32",
            )
    return _in_order(arrays)


def _in_order(arrays: Arrays) -> Arrays:
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}
