"""Reads images and labels in the IDX format of MNIST, gzipped or not."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def read_array(path: Path) -> Bytes:
    """Returns the unsigned bytes of one IDX file in the file's shape, read straight into place."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        zeros, kind, dims = struct.unpack(">HBB", file.read(4))
        if zeros != 0 or kind != 0x08:
            raise ValueError(f"{path} is not an IDX file of unsigned bytes")
        array = np.empty(struct.unpack(f">{dims}I", file.read(4 * dims)), np.uint8)
        rest = array.data.cast("B")
        while rest:
            count = file.readinto(rest)
            if not count:
                raise ValueError(f"{path} ends {len(rest)} bytes early")
            rest = rest[count:]
    return array


def read_train_split(folder: Path, limit: int | None = None) -> tuple[Bytes, Bytes]:
    """Returns the first `limit` training images, (samples, height, width), and their labels, (samples,)."""
    images = read_array(_find(folder, "train-images-idx3-ubyte"))
    labels = read_array(_find(folder, "train-labels-idx1-ubyte"))
    if len(images) != len(labels):
        raise ValueError(f"{folder} holds {len(images)} training images but {len(labels)} labels")
    return images[:limit], labels[:limit]


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"neither {name} nor {name}.gz is in {folder}")
