"""The contract of a data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from core.contracts.options import Plugged
from core.contracts.transforms import Transform
from core.spec import SampleSpec


@dataclass(frozen=True)
class ArraySplit:
    """One part of a data set (training or evaluation) as arrays.

    Attributes:
        samples: (num_samples, *stored shape), uint8 or float32, or int32 token ids; memory-mapped where it is large.
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
        """Returns what turns stored samples into samples of `sample_spec`, applied in order; token ids take none.

        Arithmetic is float32; random ones are left out in evaluation.
        """

    @abstractmethod
    def load(self, split: str) -> ArraySplit:
        """Returns the arrays of `split`, "train" or "eval".

        Raises:
            DataError: A file is missing, truncated, mislabelled or does not match its partner.
        """
