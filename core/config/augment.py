"""Random changes of training images, and where they come in a data set's transforms."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.contracts import Normalize, RandomAffine, RandomCrop, RandomFlip, Transform
from core.errors import ConfigError


@dataclass(kw_only=True)
class AugmentConfig:
    """How training images are changed; every number is drawn anew for each sample and epoch."""

    crop_padding: int = 0  # a random window of the image padded with so many zeros on each side; 0: none
    flip: bool = False  # left and right exchanged in half of the images
    rotate: float = 0.0  # rotation by up to so many degrees either way
    shift: float = 0.0  # shift by up to this part of height and width either way
    zoom: list[float] = field(default_factory=lambda: [1.0, 1.0])  # smallest and largest scale
    shear: float = 0.0  # shear along x by up to so many degrees either way

    def __post_init__(self) -> None:
        for key in ("crop_padding", "rotate", "shift", "shear"):
            if getattr(self, key) < 0:
                raise ConfigError(
                    f"'augment.{key}' is out of range.", received=getattr(self, key), allowed="at least 0"
                )
        if self.shear >= 90:
            raise ConfigError("'augment.shear' is out of range.", received=self.shear, allowed="below 90 degrees")
        if len(self.zoom) != 2 or not 0 < self.zoom[0] <= self.zoom[1]:
            raise ConfigError("'augment.zoom' is no range.", received=self.zoom, allowed="[smallest, largest], above 0")

    def transforms(self) -> tuple[Transform, ...]:
        """Returns the random transforms in order: crop, flip, affine; those without effect are left out."""
        low, high = self.zoom
        found: list[Transform] = []
        if self.crop_padding:
            found.append(RandomCrop(self.crop_padding))
        if self.flip:
            found.append(RandomFlip())
        if self.rotate or self.shift or self.shear or (low, high) != (1.0, 1.0):
            found.append(RandomAffine(self.rotate, self.shift, (low, high), self.shear))
        return tuple(found)

    def added_to(self, transforms: tuple[Transform, ...]) -> tuple[Transform, ...]:
        """Returns a data set's transforms with these before the normalisation, so that zeros mean black."""
        places = [index for index, transform in enumerate(transforms) if isinstance(transform, Normalize)]
        place = places[0] if places else len(transforms)
        return (*transforms[:place], *self.transforms(), *transforms[place:])
