"""The options that all data sets share."""

from __future__ import annotations

from dataclasses import dataclass

from core.contracts import ArraySplit, Resize
from core.errors import ConfigError


@dataclass(kw_only=True)
class DataOptions:
    """What every data set takes."""

    limit: int | None = None  # the first so many samples of each split, for a quick look; null: all
    resize: list[int] | None = None  # height and width to which images are brought; null: as they are stored

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ConfigError("'data.limit' is out of range.", received=self.limit, allowed="at least 1, or null")
        if self.resize is not None and (len(self.resize) != 2 or min(self.resize) < 1):
            raise ConfigError("'data.resize' is not a size.", received=self.resize, allowed="[height, width]")

    def limited(self, split: ArraySplit) -> ArraySplit:
        """Returns the part of a split that `limit` leaves."""
        return split if self.limit is None else ArraySplit(split.samples[: self.limit], split.labels[: self.limit])

    def resized(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns a sample's shape after resizing."""
        return shape if self.resize is None else (*shape[:-2], *self.resize)

    def resize_transforms(self) -> tuple[Resize, ...]:
        """Returns the transform that `resize` asks for, if any."""
        return () if self.resize is None else (Resize(self.resize[0], self.resize[1]),)
