"""Deformed copies of the embedded digits, computed from a sample's number alone.

A coarse grid of control points says where in the digit an image looks; a cubic B-spline makes the places between them
smooth. The grid is turned, sheared, stretched and shifted as a whole (a B-spline gives affine maps exactly), and each
of its points is moved by a random number of its own. Everything is sums and products of single elements in float32, no
matrix product and no sine, so a sample's bytes depend neither on the samples beside it nor on the machine.

Source: Simard, Steinkraus, Platt, "Best practices for convolutional neural networks applied to visual document
analysis", ICDAR 2003, section 2, for elastic deformation; de Boor, "A practical guide to splines", 2001, chapter IX.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from core.datasets.digits import Digits, DigitsOptions
from core.randomness import sample_uniforms

SIDE = 28  # of an image
SOURCE = 8  # side of a digit as it was collected
GRID = 6  # control points along a side
BLOCK = 256  # samples computed at once; fewer cost Python time, more leave the cache

TILT = 0.13  # tangent of half the largest angle either way: 15 degrees
STRETCH = 0.15  # largest change of width and of height either way
SHEAR = 0.2  # along x, either way
SHIFT = 0.6  # pixels of the source either way
WOBBLE = 1.2  # largest move of a control point along each axis, in pixels of the source
NUM_AFFINE = 6
NUM_DRAWS = NUM_AFFINE + 2 * GRID * GRID

# A digit is looked up in a table that is finer than its pixels by FINE, and goes on by a black pixel on each side.
FINE = 16
TABLE = (SOURCE + 1) * FINE
GREY_TO_BYTE = 255 / 16

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


def deformed_digits(seed: int, ids: npt.NDArray[np.int64]) -> tuple[Bytes, Bytes]:
    """Returns samples and their labels; sample i shows training digit i modulo their number.

    Args:
        seed: Of the deformations.
        ids: Numbers of the samples, int64 (N,).

    Returns:
        uint8 (N, 1, 28, 28) and uint8 (N,).
    """
    labels = Digits(DigitsOptions()).load("train").labels
    which = ids % len(labels)
    images = np.empty((len(ids), 1, SIDE, SIDE), dtype=np.uint8)
    for begin in range(0, len(ids), BLOCK):
        rows = slice(begin, begin + BLOCK)
        draws = sample_uniforms(seed, "digits", epoch=0, ids=ids[rows], count=NUM_DRAWS)
        points = _control_points((2.0 * draws - 1.0).astype(np.float32).T.copy())
        images[rows, 0] = _drawn("train", which[rows], points)
    return images, labels[which].astype(np.uint8)


def plain_digits(split: str) -> tuple[Bytes, Bytes]:
    """Returns the undeformed digits of a split at the same size, uint8 (N, 1, 28, 28), and labels, uint8 (N,)."""
    labels = Digits(DigitsOptions()).load(split).labels
    points = _control_points(np.zeros((NUM_DRAWS, len(labels)), dtype=np.float32))
    return _drawn(split, np.arange(len(labels)), points)[:, None], labels.astype(np.uint8)


def _control_points(spread: Floats) -> Floats:
    """Returns the place in the source, y and x from its middle, of every control point, float32 (GRID, GRID, 2, N).

    Args:
        spread: Numbers in [-1, 1), float32 (NUM_DRAWS, N).
    """
    tilt, wide, high, slant, down, right = spread[:NUM_AFFINE]
    half = TILT * tilt
    cos, sin = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
    wide, high, slant = 1 + STRETCH * wide, 1 + STRETCH * high, SHEAR * slant
    spots = (((np.arange(GRID) - 1) / (GRID - 3) - 0.5) * SOURCE).astype(np.float32)
    y, x = spots[:, None, None], spots[:, None]
    points = WOBBLE * spread[NUM_AFFINE:].reshape(GRID, GRID, 2, -1)
    points[:, :, 0] += (sin * high) * x + (cos * high) * y + SHIFT * down
    points[:, :, 1] += (wide * (cos + slant * sin)) * x + (wide * (slant * cos - sin)) * y + SHIFT * right
    return points


def _drawn(split: str, which: npt.NDArray[np.int64], points: Floats) -> Bytes:
    """Returns images of the digits `which`, uint8 (N, 28, 28), as the control points (GRID, GRID, 2, N) bend them."""
    points = (points + np.float32(TABLE / (2 * FINE))) * np.float32(FINE)
    rows = np.stack([_between(points, place) for place in range(SIDE)], axis=1)
    table, begins = _tables(split), which * TABLE**2
    images = np.empty((SIDE, SIDE, len(which)), dtype=np.uint8)
    for place in range(SIDE):
        spots = _between(rows, place).astype(np.int16)
        np.clip(spots, 0, TABLE - 1, out=spots)
        cells = spots[:, 0] * np.int16(TABLE) + spots[:, 1]
        table.take(cells + begins, out=images[place], mode="clip")
    return images.transpose(2, 1, 0)


def _between(points: Floats, place: int) -> Floats:
    """Returns the spline through `points` (GRID, ...) at one place of the output: uniform cubic B-splines."""
    weights, first = _weights()[place]
    value = points[first] * weights[0]
    for k in range(1, 4):
        value += points[first + k] * weights[k]
    return value  # type: ignore[no-any-return]


@cache
def _weights() -> list[tuple[Floats, int]]:
    """Returns, for each of the 28 places, the weights of the four points that count there, and the first of them."""
    spot = (np.arange(SIDE) + 0.5) / SIDE * (GRID - 3)
    first = spot.astype(np.int64)
    t = spot - first
    taps = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t * t + 4, -3 * t**3 + 3 * t * t + 3 * t + 1, t**3], axis=1) / 6
    return [(weights, int(start)) for weights, start in zip(taps.astype(np.float32), first, strict=True)]


@cache
def _tables(split: str) -> Bytes:
    """Returns every digit of a split, bilinearly FINE times finer, one after the other, black at the rim; uint8."""
    images = Digits(DigitsOptions()).load(split).samples[:, 0]
    tables = np.empty((len(images), TABLE, TABLE), dtype=np.uint8)
    for table, image in zip(tables, images, strict=True):
        fine = _finer(_finer(np.pad(image.astype(np.float32) * np.float32(GREY_TO_BYTE), 1)).T).T
        table[1:-1, 1:-1] = (fine + np.float32(0.5))[1:-1, 1:-1].astype(np.uint8)
        table[[0, -1]] = 0
        table[:, [0, -1]] = 0
    return tables.reshape(-1)


def _finer(rows: Floats) -> Floats:
    """Returns FINE numbers, linearly interpolated, for each step along the rows of a matrix."""
    part = ((np.arange(FINE) + 0.5) / FINE).astype(np.float32)
    low, high = rows[:, :-1, None], rows[:, 1:, None]
    return (low + (high - low) * part).reshape(len(rows), -1)
