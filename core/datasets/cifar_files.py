"""Reading the files of CIFAR-10 and CIFAR-100, the binary version and the Python version.

Source: "CIFAR-10 and CIFAR-100 datasets", A. Krizhevsky, www.cs.toronto.edu/~kriz/cifar.html. A binary file is a
row of records: one byte a kind of label, then 3,072 bytes, the red plane of 32x32 first. A file of the Python version
is a pickled dict with `data` (N, 3072) and lists of labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.contracts import ArraySplit
from core.datasets.array_pickle import read_pickled_arrays
from core.errors import DataError

IMAGE = (3, 32, 32)
IMAGE_BYTES = 3 * 32 * 32


def read_binary(paths: Sequence[Path], kinds: Mapping[str, int], chosen: str) -> ArraySplit:
    """Returns the images and one kind of label of binary files.

    One file is memory-mapped, its images a view of the records; several are joined in memory.

    Args:
        paths: The files, in order.
        kinds: The kinds of label in a record, in order, and how many classes each has.
        chosen: The kind that is returned.

    Raises:
        DataError: A file is truncated, or a label is out of range.
    """
    parts = [_records(path, kinds) for path in paths]
    records = parts[0] if len(parts) == 1 else np.concatenate(parts)
    images = records[:, len(kinds) :].reshape(len(records), *IMAGE)
    return ArraySplit(images, np.array(records[:, list(kinds).index(chosen)]))


def read_python(paths: Sequence[Path], kinds: Mapping[str, int], chosen: str) -> ArraySplit:
    """Returns the images and one kind of label of files of the Python version, in memory; runs nothing of them.

    Args:
        paths: The files, in order.
        kinds: The keys under which a file keeps its labels, and how many classes each has.
        chosen: The key that is returned.

    Raises:
        DataError: A file is damaged, lacks a key, or asks for anything but arrays.
    """
    images, labels = [], []
    for path in paths:
        content = read_pickled_arrays(path)
        missing = [key for key in ("data", chosen) if key not in content]
        if missing:
            raise DataError(
                f"{path} lacks {' and '.join(missing)}: it is mislabelled.",
                received=", ".join(content) or "no key",
                remedy="Look whether files of CIFAR-10 and CIFAR-100 were mixed up.",
            )
        images.append(_image_rows(path, content["data"]))
        labels.append(_label_row(path, content[chosen], kinds[chosen], len(images[-1])))
    return ArraySplit(np.concatenate(images).reshape(-1, *IMAGE), np.concatenate(labels))


def _records(path: Path, kinds: Mapping[str, int]) -> npt.NDArray[np.uint8]:
    size, record = path.stat().st_size, len(kinds) + IMAGE_BYTES
    if size == 0 or size % record:
        others = [count for count in (1, 2) if count != len(kinds) and size and size % (count + IMAGE_BYTES) == 0]
        raise DataError(
            f"{path} {'holds records of another data set: it is mislabelled' if others else 'is truncated'}.",
            received=f"{size} bytes",
            allowed=f"a multiple of {record} bytes, above 0",
            remedy="Look whether files of CIFAR-10 and CIFAR-100 were mixed up." if others else "Download it again.",
        )
    records: npt.NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, record)
    for column, (kind, num_classes) in enumerate(kinds.items()):
        _check_range(path, kind, records[:, column], num_classes)
    return records


def _image_rows(path: Path, rows: Any) -> npt.NDArray[np.uint8]:
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != IMAGE_BYTES:
        found = f"{rows.dtype} of shape {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise DataError(f"{path} does not hold images.", received=found, allowed=f"uint8 of shape (N, {IMAGE_BYTES})")
    return rows


def _label_row(path: Path, values: Any, num_classes: int, count: int) -> npt.NDArray[np.int64]:
    is_whole = isinstance(values, np.ndarray) and values.ndim == 1 and np.issubdtype(values.dtype, np.integer)
    is_list = isinstance(values, list) and all(isinstance(value, int) and abs(value) < 2**31 for value in values)
    if not (is_whole or is_list):
        raise DataError(f"{path} does not hold labels.", received=type(values).__name__, allowed="a list of integers")
    labels = np.asarray(values, dtype=np.int64)
    if len(labels) != count:
        raise DataError(f"{path} holds {count} images and {len(labels)} labels.", allowed="one label an image")
    _check_range(path, "labels", labels, num_classes)
    return labels


def _check_range(path: Path, kind: str, labels: npt.NDArray[Any], num_classes: int) -> None:
    bad = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(bad):
        raise DataError(
            f"{path} is damaged or mislabelled: {kind}, record {bad[0]}.",
            received=int(labels[bad[0]]),
            allowed=f"0 to {num_classes - 1}",
            remedy="Download it again.",
        )
