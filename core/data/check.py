"""Checking a data set in the parent, before any rank starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.contracts import ArraySplit, Dataset, Normalize, Resize
from core.errors import DataError


def check_dataset(dataset: Dataset, splits: Sequence[str]) -> dict[str, int]:
    """Checks the arrays of `splits` against what the data set says of them.

    Returns:
        The number of samples of each split.

    Raises:
        DataError: A split is empty, its arrays do not match, a label is out of range, or the stored samples do not
            become those of `sample_spec`.
    """
    return {name: _check_split(dataset, name, dataset.load(name)) for name in splits}


def _check_split(dataset: Dataset, name: str, split: ArraySplit) -> int:
    what = f"data '{dataset.name}', split '{name}'"
    if len(split.samples) != len(split.labels):
        raise DataError(
            f"Samples and labels differ in number: {what}.",
            received=f"{len(split.samples)} samples and {len(split.labels)} labels",
            allowed="one label a sample",
        )
    if not len(split):
        raise DataError(f"There is no sample: {what}.")
    num_classes = dataset.sample_spec().num_classes
    bad = np.flatnonzero((split.labels < 0) | (split.labels >= num_classes))
    if len(bad):
        raise DataError(
            f"A label is out of range: {what}, index {bad[0]}.",
            received=int(split.labels[bad[0]]),
            allowed=f"0 to {num_classes - 1}",
            remedy=f"{len(bad)} of {len(split)} labels are; set data.num_classes if there are more classes.",
        )
    shape = split.samples.shape[1:]
    for transform in dataset.transforms():
        match transform:
            case Resize(height, width):
                shape = (*shape[:-2], height, width)
            case Normalize(mean, _) if len(mean) != shape[0]:
                raise DataError(
                    f"Normalize has another number of channels than the samples: {what}.",
                    received=f"{len(mean)} means, samples of shape {shape}",
                )
    if shape != dataset.sample_spec().shape:
        raise DataError(
            f"The stored samples do not become what the data set says: {what}.",
            received=shape,
            allowed=dataset.sample_spec().shape,
        )
    return len(split)
