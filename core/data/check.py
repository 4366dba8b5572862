"""Checking a data set in the parent, before any rank starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.contracts import ArraySplit, Dataset, Transform
from core.contracts.transforms import output_shape
from core.errors import DataError


def check_dataset(
    dataset: Dataset, splits: Sequence[str], transforms: Sequence[Transform] | None = None
) -> dict[str, int]:
    """Checks the arrays of `splits` against what the data set says of them.

    Args:
        dataset: The data set.
        splits: "train", "eval" or both.
        transforms: What its samples go through; its own unless given.

    Returns:
        The number of samples of each split.

    Raises:
        DataError: A split is empty, its arrays do not match, a label is out of range, or the stored samples do not
            become those of `sample_spec`.
    """
    if transforms is None:
        transforms = dataset.transforms()
    return {name: _check_split(dataset, transforms, name, dataset.load(name)) for name in splits}


def _check_split(dataset: Dataset, transforms: Sequence[Transform], name: str, split: ArraySplit) -> int:
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
    for transform in transforms:
        try:
            shape = output_shape(transform, shape)
        except ValueError as error:
            raise DataError(f"A transform does not fit the samples: {what}.", received=str(error)) from None
    if shape != dataset.sample_spec().shape:
        raise DataError(
            f"The stored samples do not become what the data set says: {what}.",
            received=shape,
            allowed=dataset.sample_spec().shape,
        )
    return len(split)
