"""The contract of a data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from core.contracts.options import Plugged
from core.spec import SampleSpec


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


Transform = Resize | Normalize


@dataclass(frozen=True)
class ArraySplit:
    """One part of a data set (training or evaluation) as arrays.

    Attributes:
        samples: (num_samples, *stored shape), uint8 or float32; memory-mapped where it is large.
        labels: (num_samples,), any integer dtype, each in [0, num_classes).
    """

    samples: npt.NDArray[Any]
    labels: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.labels)


class Dataset(Plugged, ABC):
    """Labelled samples as arrays.

    System rules: used in the parent, which checks the data before any rank starts, and on every rank, which maps them;
    imports no framework. Samples are stored as they were found; `transforms` are run on whole batches by the backend.
    """

    @abstractmethod
    def sample_spec(self) -> SampleSpec:
        """Returns what one sample is after the transforms; reads headers at most.

        Raises:
            DataError: A file is missing or damaged.
        """

    @abstractmethod
    def transforms(self) -> tuple[Transform, ...]:
        """Returns what turns stored samples into samples of `sample_spec`, applied in order in float32."""

    @abstractmethod
    def load(self, split: str) -> ArraySplit:
        """Returns the arrays of `split`, "train" or "eval".

        Raises:
            DataError: A file is missing, truncated, mislabelled or does not match its partner.
        """
