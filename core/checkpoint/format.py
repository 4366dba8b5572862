"""The files of a checkpoint.

A checkpoint is a folder: `model.safetensors` with the full parameters and buffers under canonical names,
`optimizer.safetensors` with `<slot>.<parameter>` (empty without slots), and `state.json` with the position, the run's
records and config, and a manifest of the other two. No file is read before its size and SHA-256 agree with the
manifest, and state.json carries a digest of its own content. Nothing is unpickled, and a file of any other name is
never opened.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

VERSION = 1
MODEL_FILE = "model.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "state.json"
TENSOR_FILES = (MODEL_FILE, OPTIMIZER_FILE)
CHUNK_BYTES = 2**20


def step_name(step: int) -> str:
    """Returns the name of the folder that holds the checkpoint of a step."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """Returns the step that a folder's name says, None if it is not the name of a checkpoint."""
    match = re.fullmatch(r"step-(\d{8,})", name)
    return int(match[1]) if match else None


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def plain_json(values: Any, indent: int | None = None) -> str:
    """Returns strict JSON with sorted keys, in ASCII; numbers that are not finite become null."""
    return json.dumps(_plain(values), sort_keys=True, indent=indent, allow_nan=False)


def state_text(content: dict[str, Any]) -> str:
    """Returns the text of state.json: the content and its digest. The same content gives the same bytes."""
    digest = hashlib.sha256(plain_json(content).encode()).hexdigest()
    return plain_json({"content": content, "sha256": digest}, indent=1) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
