"""Decoding image files into one array, in parallel, through Pillow."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.datasets.parallel import run_chunks
from core.errors import DataError

CHUNK = 128  # images of one task
SHOWN = 5  # unreadable files named in the error

Task = tuple[str, int, list[str], tuple[int, int, int]]  # array file, first row, image files, shape
Sums = tuple[list[str], list[int], list[int]]  # what failed; by channel the sums of bytes and of their squares


def require_pillow() -> None:
    """Raises DataError if Pillow is not installed."""
    if importlib.util.find_spec("PIL") is None:
        raise DataError("Images need Pillow, which is not installed.", remedy="pip install 'anycard[images]'")


def decode_images(
    paths: Sequence[Path], target: Path, shape: tuple[int, int, int], workers: int
) -> tuple[list[float], list[float]]:
    """Writes images as uint8 (N, *shape) to a new .npy file; returns mean and standard deviation of each channel.

    Args:
        paths: The images, in order.
        target: The .npy file.
        shape: Channels (1 or 3), height, width.
        workers: Processes.

    Raises:
        DataError: Images cannot be read; names the first few.
    """
    np.lib.format.open_memmap(target, mode="w+", dtype=np.uint8, shape=(len(paths), *shape))
    tasks: list[Task] = [
        (str(target), begin, [str(path) for path in paths[begin : begin + CHUNK]], shape)
        for begin in range(0, len(paths), CHUNK)
    ]
    results = run_chunks("packing images", _decode_chunk, tasks, [len(task[2]) for task in tasks], workers)
    bad = [line for lines, _, _ in results for line in lines]
    if bad:
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise DataError(
            f"{len(bad)} of {len(paths)} images cannot be read.",
            received="; ".join(bad[:SHOWN]) + more,
            remedy="Remove or replace them.",
        )
    count = len(paths) * shape[1] * shape[2]
    mean = [sum(sums[channel] for _, sums, _ in results) / count for channel in range(shape[0])]
    square = [sum(squares[channel] for _, _, squares in results) / count for channel in range(shape[0])]
    return mean, [max(s - m * m, 0.0) ** 0.5 or 1.0 for m, s in zip(mean, square, strict=True)]


def _decode_chunk(task: Task) -> Sums:
    target, begin, names, shape = task
    images, failed = np.zeros((len(names), *shape), dtype=np.uint8), []
    for row, name in enumerate(names):
        try:
            images[row] = _decode(name, shape)
        except Exception as error:
            # A damaged file raises whatever its decoder comes upon.
            failed.append(f"{name} ({error})")
    np.load(target, mmap_mode="r+")[begin : begin + len(names)] = images
    wide = images.astype(np.int64)
    axes = (0, 2, 3)
    return failed, wide.sum(axis=axes).tolist(), (wide * wide).sum(axis=axes).tolist()


def _decode(name: str, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    """Returns one image, turned as its camera says: the shorter side scaled to fit, then the middle cut out."""
    from PIL import Image, ImageOps

    channels, height, width = shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(name) as file:
            upright = ImageOps.exif_transpose(file).convert("RGB" if channels == 3 else "L")
            fitted = ImageOps.fit(upright, (width, height), method=Image.Resampling.BILINEAR)
        pixels = np.asarray(fitted, dtype=np.uint8).reshape(height, width, channels)
    return pixels.transpose(2, 0, 1)
