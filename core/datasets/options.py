"""The options that data sets share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.contracts import ArraySplit, Normalize, Resize, Transform
from core.errors import ConfigError


@dataclass(kw_only=True)
class DataOptions:
    """What every data set takes."""

    limit: int | None = None  # the first so many samples of each split, for a quick look; null: all

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ConfigError("'data.limit' is out of range.", received=self.limit, allowed="at least 1, or null")

    def limited(self, split: ArraySplit) -> ArraySplit:
        """Returns the part of a split that `limit` leaves."""
        return split if self.limit is None else ArraySplit(split.samples[: self.limit], split.labels[: self.limit])


@dataclass(kw_only=True)
class MappedOptions(DataOptions):
    """What data sets take whose samples are mapped from files."""

    resident: bool = False  # read the samples into the memory of each rank instead of mapping them

    def limited(self, split: ArraySplit) -> ArraySplit:
        """Returns the part of a split that `limit` leaves, in memory if `resident` asks for that."""
        count = len(split) if self.limit is None else self.limit
        samples, labels = split.samples[:count], split.labels[:count]
        return ArraySplit(np.array(samples) if self.resident else samples, labels)


@dataclass(kw_only=True)
class ImageOptions(DataOptions):
    """What every data set of images takes."""

    resize: list[int] | None = None  # height and width to which images are brought; null: as they are stored

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resize is not None and (len(self.resize) != 2 or min(self.resize) < 1):
            raise ConfigError("'data.resize' is not a size.", received=self.resize, allowed="[height, width]")

    def resized(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns a sample's shape after resizing."""
        return shape if self.resize is None else (*shape[:-2], *self.resize)

    def image_transforms(self, mean: Sequence[float], std: Sequence[float]) -> tuple[Transform, ...]:
        """Returns the resizing that is asked for, if any, and the normalisation in the units of stored samples."""
        resize = () if self.resize is None else (Resize(self.resize[0], self.resize[1]),)
        return (*resize, Normalize(tuple(mean), tuple(std)))
