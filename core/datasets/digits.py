"""The digits that anycard brings along.

1,797 handwritten digits of 8x8 pixels with 17 grey levels (0 to 16): the test part of "Optical Recognition of
Handwritten Digits", E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998, doi:10.24432/C50P49, under
CC BY 4.0. scripts/make_digits.py made the file from the copy in scikit-learn. Every fifth sample is for evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.contracts import ArraySplit, Dataset, Transform
from core.datasets.options import ImageOptions
from core.spec import SampleSpec

FILE = Path(__file__).parent / "digits.npz"
EVAL_EVERY = 5
# Mean and standard deviation of the training part, in grey levels.
MEAN, STD = 4.8929, 6.0231


@dataclass(kw_only=True)
class DigitsOptions(ImageOptions):
    """The options of data=digits."""

    resize: list[int] | None = field(default_factory=lambda: [28, 28])  # the size of MNIST's digits


class Digits(Dataset):
    """Real handwritten digits, with no download: 1,438 for training, 359 for evaluation."""

    name = "digits"
    Options = DigitsOptions

    def sample_spec(self) -> SampleSpec:
        return SampleSpec(self.options.resized((1, 8, 8)), 10)

    def transforms(self) -> tuple[Transform, ...]:
        return self.options.image_transforms([MEAN], [STD])  # type: ignore[no-any-return]

    def load(self, split: str) -> ArraySplit:
        images, labels = _read()
        is_eval = np.arange(len(labels)) % EVAL_EVERY == EVAL_EVERY - 1
        chosen = is_eval if split == "eval" else ~is_eval
        return self.options.limited(ArraySplit(images[chosen][:, None], labels[chosen]))  # type: ignore[no-any-return]


@cache
def _read() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns images (1797, 8, 8) and labels (1797,), uint8."""
    with np.load(FILE, allow_pickle=False) as file:
        return file["images"], file["labels"]
