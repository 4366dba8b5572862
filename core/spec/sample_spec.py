"""What one sample of a data set is, as the model sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleSpec:
    """One sample after the data set's transforms.

    Attributes:
        shape: Shape without the batch dim: (channels, height, width) for images.
        num_classes: Labels are integers in [0, num_classes).
        vocabulary: For sequences of token ids, int32 of shape (length,), how many ids there are; 0 is padding. None for
            samples that are numbers.
    """

    shape: tuple[int, ...]
    num_classes: int
    vocabulary: int | None = None
