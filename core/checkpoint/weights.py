"""Starting from published weights."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from core.checkpoint.format import MODEL_FILE
from core.contracts import Model, TrainingState
from core.errors import CheckpointError
from core.spec import ModelSpec, ParameterSpec, initial_tensors

BFLOAT16, FLOATS = "BF16", ("F64", "F32", "F16", "BF16")
HEADER_BYTES = 8


@dataclass(frozen=True)
class PublishedWeights:
    """A safetensors file whose tensors fit a model.

    Attributes:
        path: The file.
        names: For each canonical name the published one; names of a head that starts anew are left out.
        fresh: Canonical names that start anew.
    """

    path: Path
    names: Mapping[str, str]
    fresh: tuple[str, ...]

    def load(self, spec: ModelSpec, seed: int) -> TrainingState:
        """Returns the state before the first update, in the model's formats, converted from the file's own."""
        arrays = initial_tensors((item for item in _tensors(spec) if item.name in self.fresh), seed)
        with safe_open(self.path, framework="np") as file:
            for item in _tensors(spec):
                if item.name in self.names:
                    arrays[item.name] = _read(file, self.path, self.names[item.name], item.dtype)
        return TrainingState(
            {parameter.name: arrays[parameter.name] for parameter in spec.parameters},
            buffers={buffer.name: arrays[buffer.name] for buffer in spec.buffers},
        )


def find_weights(model: Model, spec: ModelSpec) -> PublishedWeights | None:
    """Returns the weights that the model's options name, after comparing names and shapes; None when they name none.

    Raises:
        CheckpointError: The file is missing or no safetensors file, or names are missing, unexpected or misshapen: all
            of them in one message.
    """
    options = model.options
    if options is None or options.weights is None:
        return None
    path = _locate(Path(options.weights).expanduser())
    others = {item.name for item in _tensors(spec) if item.dtype != "float32"}
    shapes = _read_shapes(path, lambda published: model.canonical_name(published) in others)
    names: dict[str, str] = {}
    unexpected: list[str] = []
    expected = {item.name: tuple(item.shape) for item in _tensors(spec)}
    for published in shapes:
        canonical = model.canonical_name(published)
        if canonical in expected:
            names[canonical] = published
        elif canonical is not None:
            unexpected.append(published)
    odd_head: list[str] = []
    odd: list[str] = []
    for name, shape in expected.items():
        found = shapes[names[name]] if name in names else None
        if found != shape:
            phrase = f"'{name}' missing" if found is None else f"'{name}' has shape {found} instead of {shape}"
            (odd_head if _is_head(name, spec) else odd).append(phrase)
    foreign = [name for name in unexpected if name.startswith(model.foreign_heads) or _is_head(name, spec)]
    odd += [f"'{name}' unexpected" for name in unexpected if name not in foreign]
    if options.replace_head:
        fresh = tuple(name for name in expected if _is_head(name, spec)) if odd_head else ()
    else:
        odd, fresh = odd + odd_head + [f"'{name}' unexpected" for name in foreign], ()
    if odd:
        raise CheckpointError(
            f"{path} does not fit model '{spec.name}'.",
            received="; ".join(odd),
            allowed=f"the {len(expected)} tensors of '{spec.name}'",
            remedy="Set model.replace_head=true to start the classifier anew."
            if (odd_head or foreign) and not options.replace_head
            else None,
        )
    return PublishedWeights(path, {name: names[name] for name in expected if name not in fresh}, fresh)


def _locate(path: Path) -> Path:
    """Returns the safetensors file that a path names.

    Raises:
        CheckpointError: There is none.
    """
    file = path / MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        raise CheckpointError(
            "The weights are not there.", received=f"model.weights={path}", remedy=f"Looked for {file.absolute()}."
        )
    return file


def _read_shapes(path: Path, is_wanted: Callable[[str], bool]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a file's tensors, from its header: those of floating-point numbers, and the others that are
    wanted by name.

    Raises:
        CheckpointError: It is no safetensors file.
    """
    try:
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            return {
                name: tuple(one.get_shape())
                for name, one in slices.items()
                if one.get_dtype() in FLOATS or is_wanted(name)
            }
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path} is no safetensors file.",
            received=str(error),
            remedy="Convert it with safetensors.torch.save_file(model.state_dict(), path); no pickle is read here.",
        ) from None


def _read(file: Any, path: Path, name: str, dtype: str) -> npt.NDArray[Any]:
    one = file.get_slice(name)
    if one.get_dtype() != BFLOAT16:
        return np.asarray(file.get_tensor(name), dtype=dtype, order="C")
    # NumPy knows no bfloat16: its 16 bits are the upper half of a float32.
    with path.open("rb") as raw:
        (size,) = struct.unpack("<Q", raw.read(HEADER_BYTES))
        begin, end = json.loads(raw.read(size))[name]["data_offsets"]
        raw.seek(HEADER_BYTES + size + begin)
        words = np.frombuffer(raw.read(end - begin), dtype="<u2").astype(np.uint32) << np.uint32(16)
    return words.view(np.float32).reshape(one.get_shape()).astype(dtype, copy=False)


def _tensors(spec: ModelSpec) -> tuple[ParameterSpec, ...]:
    return (*spec.parameters, *spec.buffers)


def _is_head(name: str, spec: ModelSpec) -> bool:
    return bool(spec.head) and name.startswith(f"{spec.head}.")
