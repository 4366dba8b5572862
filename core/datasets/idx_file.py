"""Reading IDX files, plain or gzipped.

Source: the format as described with MNIST (Y. LeCun, C. Cortes, C. Burges): two zero bytes, a type code, the number of
dims, each dim as a big-endian 32-bit number, then the data.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import DataError

UINT8_CODE = 0x08
GZIP_MAGIC = b"\x1f\x8b"
KINDS = {1: "labels", 3: "images"}


def read_idx(path: Path, num_dims: int) -> npt.NDArray[Any]:
    """Returns the array of an IDX file of bytes; a plain file is memory-mapped, a gzipped one unpacked into memory.

    Args:
        path: The file.
        num_dims: 3 for images, 1 for labels.

    Raises:
        DataError: The file is no IDX file, is truncated, or holds something else than was expected.
    """
    with path.open("rb") as file:
        is_gzip = file.read(2) == GZIP_MAGIC
    content: Any
    if is_gzip:
        try:
            content = np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path} is damaged: it does not unpack.", received=str(error)) from None
    else:
        content = np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.zeros(0, np.uint8)
    header = bytes(content[: 4 + 4 * num_dims])
    if len(header) < 4 or header[:2] != b"\x00\x00" or header[2] != UINT8_CODE:
        raise DataError(
            f"{path} is not an IDX file of bytes.",
            received=f"first bytes {header[:4].hex() or 'none'}",
            allowed=f"0000080{num_dims}",
        )
    if header[3] != num_dims:
        found = KINDS.get(header[3], f"an array of {header[3]} dims")
        raise DataError(
            f"{path} does not hold {KINDS[num_dims]}: it is mislabelled.",
            received=f"{found} (first bytes {header[:4].hex()})",
            allowed=f"{KINDS[num_dims]} (first bytes 0000080{num_dims})",
            remedy="Look whether the names of the images and the labels were swapped.",
        )
    if len(header) < 4 + 4 * num_dims:
        raise DataError(f"{path} is truncated in its header.", received=f"{len(content)} bytes")
    shape = struct.unpack(f">{num_dims}I", header[4:])
    expected = len(header) + math.prod(shape)
    if len(content) != expected:
        raise DataError(
            f"{path} is {'truncated' if len(content) < expected else 'longer than its header says'}.",
            received=f"{len(content)} bytes",
            allowed=f"{expected} bytes for shape {shape}",
            remedy="Download it again.",
        )
    array: npt.NDArray[Any] = content[len(header) :].reshape(shape)
    return array
