"""What turns stored samples into the model's, on whole batches, and how its random choices are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from core.randomness import sample_uniforms

Draws = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resize:
    """Bilinear resizing of (batch, channels, height, width), half-pixel centres, no antialiasing.

    Source: `torch.nn.functional.interpolate(mode="bilinear", align_corners=False)`, 2.13.
    """

    height: int
    width: int


@dataclass(frozen=True)
class Normalize:
    """(x - mean) / std, one mean and std a channel, in the units of the stored samples (0..255 for bytes)."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class RandomCrop:
    """A window of the image's own size out of the image with `padding` zeros on each side; training only.

    Source: `torchvision.transforms.RandomCrop(size, padding)`, 0.28.
    """

    padding: int
    num_draws: ClassVar[int] = 2

    def choices(self, draws: Draws) -> npt.NDArray[np.int64]:
        """Returns each sample's (top, left) in the padded image, int64 (batch, 2)."""
        return np.floor(draws * (2 * self.padding + 1)).astype(np.int64)


@dataclass(frozen=True)
class RandomFlip:
    """Left and right exchanged in half of the samples; training only."""

    num_draws: ClassVar[int] = 1

    def choices(self, draws: Draws) -> npt.NDArray[np.bool_]:
        """Returns whether each sample is flipped, bool (batch,)."""
        return np.asarray(draws[:, 0] < 0.5)


@dataclass(frozen=True)
class RandomAffine:
    """Rotation, shift, scale and shear about the image's centre, bilinear, zeros outside; training only.

    Each number is uniform on its range. The matrix takes a place of the output, in units where the image spans -1 to 1,
    to the place of the input that it shows: the transpose of rotation and shear, over the scale, less the shift.

    Source: `torch.nn.functional.affine_grid` and `grid_sample(align_corners=False)`, 2.13.

    Attributes:
        degrees: Rotation by up to so many degrees either way; clockwise is positive.
        translate: Shift by up to this part of height and width either way.
        scale: Smallest and largest scale.
        shear: Shear along x by up to so many degrees either way.
    """

    degrees: float = 0.0
    translate: float = 0.0
    scale: tuple[float, float] = (1.0, 1.0)
    shear: float = 0.0
    num_draws: ClassVar[int] = 5

    def choices(self, draws: Draws) -> npt.NDArray[np.float32]:
        """Returns each sample's matrix from output to input places, float32 (batch, 2, 3)."""
        spread = 2.0 * draws - 1.0
        angle = np.deg2rad(self.degrees) * spread[:, 0]
        shift = 2.0 * self.translate * spread[:, 1:3]
        scale = self.scale[0] + (self.scale[1] - self.scale[0]) * draws[:, 3]
        shear = np.tan(np.deg2rad(self.shear) * spread[:, 4])
        cos, sin = np.cos(angle) / scale, np.sin(angle) / scale
        matrix = np.empty((len(draws), 2, 3))
        matrix[:, 0, 0], matrix[:, 0, 1] = cos, sin + shear * cos
        matrix[:, 1, 0], matrix[:, 1, 1] = -sin, cos - shear * sin
        matrix[:, :, 2] = -np.einsum("bij,bj->bi", matrix[:, :, :2], shift)
        return matrix.astype(np.float32)


Transform = Resize | Normalize | RandomCrop | RandomFlip | RandomAffine
RANDOM = (RandomCrop, RandomFlip, RandomAffine)


def draw_choices(
    transforms: Sequence[Transform], seed: int, epoch: int, ids: npt.NDArray[np.int64]
) -> list[npt.NDArray[Any] | None]:
    """Returns the choices of every transform for a batch, None for those that are not random.

    They follow from seed, epoch, sample and the transform's place alone, so they are the same on any number of cards
    and every backend.

    Args:
        transforms: In the order in which they are applied.
        seed: The run's seed.
        epoch: From 0.
        ids: The samples' ids, int64 (batch,); -1 for a row that is padding.
    """
    return [
        transform.choices(sample_uniforms(seed, "augment", index, epoch=epoch, ids=ids, count=transform.num_draws))
        if isinstance(transform, RANDOM)
        else None
        for index, transform in enumerate(transforms)
    ]


def output_shape(transform: Transform, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a sample's shape after one transform.

    Raises:
        ValueError: The transform does not fit; says how.
    """
    if isinstance(transform, Normalize):
        if len(transform.mean) != shape[0]:
            raise ValueError(f"Normalize has {len(transform.mean)} means for samples of shape {shape}")
        return shape
    if len(shape) != 3:
        raise ValueError(f"{type(transform).__name__} takes (channels, height, width), not {shape}")
    if isinstance(transform, Resize):
        return (shape[0], transform.height, transform.width)
    if math.prod(shape) == 0:
        raise ValueError(f"samples of shape {shape} are empty")
    return shape
