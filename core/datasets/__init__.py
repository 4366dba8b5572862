"""The core's own data sets."""

from __future__ import annotations

from collections.abc import Sequence

from core.contracts import Dataset
from core.hookspecs import hookimpl


@hookimpl
def anycard_datasets() -> Sequence[type[Dataset]]:
    from core.datasets.arrays import Arrays
    from core.datasets.cifar import Cifar10, Cifar100
    from core.datasets.digits import Digits
    from core.datasets.digits_million import DigitsMillion
    from core.datasets.idx import FashionMnist, Idx, Mnist
    from core.datasets.image_folder import ImageFolder
    from core.datasets.synthetic import Synthetic
    from core.datasets.synthetic_text import SyntheticText
    from core.datasets.text import Text

    images = [Digits, DigitsMillion, Mnist, FashionMnist, Cifar10, Cifar100, Idx, ImageFolder, Arrays, Synthetic]
    return [*images, Text, SyntheticText]
