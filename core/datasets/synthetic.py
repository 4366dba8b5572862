"""Made-up images that can be learnt, of any size and number, for trying things out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from core.contracts import ArraySplit, Dataset, Transform
from core.datasets.options import ImageOptions
from core.errors import ConfigError
from core.randomness import stream
from core.spec import SampleSpec


@dataclass(kw_only=True)
class SyntheticOptions(ImageOptions):
    """The options of data=synthetic."""

    shape: list[int] = field(default_factory=lambda: [1, 28, 28])  # channels, height, width
    num_classes: int = 10
    samples: int = 4096  # training samples
    eval_samples: int = 1024
    seed: int = 0  # of the samples; the run's seed does not change them

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("num_classes", "samples", "eval_samples"):
            if getattr(self, key) < 1:
                raise ConfigError(f"'data.{key}' is out of range.", received=getattr(self, key), allowed="at least 1")
        if not self.shape or min(self.shape) < 1:
            raise ConfigError("'data.shape' is not a shape.", received=self.shape, allowed="sizes of at least 1")


class Synthetic(Dataset):
    """A random pattern a class, mixed half and half with noise; uint8."""

    name = "synthetic"
    Options = SyntheticOptions

    def sample_spec(self) -> SampleSpec:
        return SampleSpec(self.options.resized(tuple(self.options.shape)), self.options.num_classes)

    def transforms(self) -> tuple[Transform, ...]:
        channels = self.options.shape[0]
        return self.options.image_transforms([127.5] * channels, [64.0] * channels)  # type: ignore[no-any-return]

    def load(self, split: str) -> ArraySplit:
        count = self.options.samples if split == "train" else self.options.eval_samples
        shape = tuple(self.options.shape)
        labels = np.arange(count) % self.options.num_classes
        samples = self._bytes(split, count, shape)
        samples //= 2
        samples += (self._bytes("classes", self.options.num_classes, shape) // 2)[labels]
        return self.options.limited(ArraySplit(samples, labels))  # type: ignore[no-any-return]

    def _bytes(self, label: str, count: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Returns random bytes of (count, *shape)."""
        size = count * int(np.prod(shape))
        words = stream(self.options.seed, "synthetic", label).random_raw(-(-size // 8))
        return words.view(np.uint8)[:size].reshape(count, *shape).copy()
