"""What a checkpoint holds, and its files.

A checkpoint is a folder: `model.safetensors` with the full parameters under canonical names, `optimizer.safetensors`
with `<slot>.<parameter>`, and `state.json` with the position, the run's records and config, and a manifest of the other
files. No file is read before its size and SHA-256 agree with the manifest, and the manifest is covered by a digest of
its own. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.contracts import TrainingState
from core.errors import CheckpointError
from core.spec import ModelSpec

VERSION = 1
MODEL_FILE = "model.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "state.json"
CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class Position:
    """Where a run stands.

    Attributes:
        epoch: The epoch of the next step, from 0.
        step_in_epoch: Steps of that epoch that are done.
        step: Steps of the run that are done.
    """

    epoch: int
    step_in_epoch: int
    step: int


@dataclass
class Checkpoint:
    """A run at one moment.

    Attributes:
        position: Where it stands.
        state: Full tensors.
        progress: The trainer's records, plain JSON values.
        metrics: The numbers of the last evaluation, by name.
        config: The run's config, plain JSON values.
    """

    position: Position
    state: TrainingState
    progress: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)

    def check_fits(self, spec: ModelSpec, slots: tuple[str, ...]) -> None:
        """Checks that the tensors are those of a model and an optimizer.

        Raises:
            CheckpointError: Names are missing, unexpected or misshapen; all of them in one message.
        """
        expected = {parameter.name: parameter.shape for parameter in spec.parameters}
        odd = list(_differences(expected, {name: array.shape for name, array in self.state.parameters.items()}))
        for slot in sorted(set(slots) | set(self.state.slots)):
            if self.state.num_updates and (slot in slots) != (slot in self.state.slots):
                odd.append(f"optimizer slot '{slot}' {'missing' if slot in slots else 'unexpected'}")
            elif slot in self.state.slots:
                found = {f"{slot}.{name}": array.shape for name, array in self.state.slots[slot].items()}
                odd += _differences({f"{slot}.{name}": shape for name, shape in expected.items()}, found)
        if odd:
            raise CheckpointError(
                f"The checkpoint does not fit model '{spec.name}' and its optimizer.",
                received="; ".join(odd),
                remedy="Resume with the model and the optimizer that it was saved with.",
            )


def _differences(expected: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> list[str]:
    """Returns one phrase for each name that is missing, unexpected or of another shape."""
    return [
        *(f"'{name}' missing" for name in sorted(expected.keys() - found.keys())),
        *(f"'{name}' unexpected" for name in sorted(found.keys() - expected.keys())),
        *(
            f"'{name}' has shape {found[name]} instead of {expected[name]}"
            for name in sorted(expected.keys() & found.keys())
            if tuple(found[name]) != tuple(expected[name])
        ),
    ]


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def canonical_json(values: dict[str, Any]) -> str:
    """Returns strict JSON with sorted keys; numbers that are not finite become null."""
    return json.dumps(_finite(values), sort_keys=True, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
