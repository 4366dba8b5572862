"""CIFAR-10 and CIFAR-100: 60,000 colour images of 32x32 in ten and in a hundred classes.

Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009. Means and standard deviations are
those of the training images' bytes as Zagoruyko and Komodakis give them with "Wide residual networks", 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar

from core.contracts import ArraySplit, Dataset, Transform
from core.datasets.cifar_files import IMAGE, read_binary, read_python
from core.datasets.download import Published, PublishedOptions, fetch
from core.errors import DataError
from core.spec import SampleSpec

URL = "https://www.cs.toronto.edu/~kriz/"

Files = dict[str, tuple[str, ...]]
Reader = Callable[[Sequence[Path], Mapping[str, int], str], ArraySplit]


class CifarLabels(Enum):
    """The two kinds of label of CIFAR-100."""

    fine = "fine"
    coarse = "coarse"


@dataclass(kw_only=True)
class CifarOptions(PublishedOptions):
    """The options of data=cifar10; root is the folder of the files, binary or Python version, or its parent."""


@dataclass(kw_only=True)
class Cifar100Options(CifarOptions):
    """The options of data=cifar100."""

    labels: CifarLabels = CifarLabels.fine  # fine: 100 classes; coarse: 20


class Cifar10(Dataset):
    """50,000 images for training and 10,000 for evaluation, ten classes of 6,000.

    The binary version is taken where both are there: an evaluation file is memory-mapped, the five training files are
    joined in memory (150 MB).
    """

    name: ClassVar[str] = "cifar10"
    Options: ClassVar[type] = CifarOptions
    mean: ClassVar[tuple[float, ...]] = (125.3, 123.0, 113.9)
    std: ClassVar[tuple[float, ...]] = (63.0, 62.1, 66.7)
    binary_folder: ClassVar[str] = "cifar-10-batches-bin"
    binary_files: ClassVar[Files] = {
        "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "eval": ("test_batch.bin",),
    }
    python_folder: ClassVar[str] = "cifar-10-batches-py"
    python_files: ClassVar[Files] = {
        "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
        "eval": ("test_batch",),
    }
    published: ClassVar[Published] = Published(
        URL, {"cifar-10-binary.tar.gz": "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}
    )
    kinds: ClassVar[dict[str, int]] = {"labels": 10}  # of label, in the order of a binary record, with their classes

    def sample_spec(self) -> SampleSpec:
        return SampleSpec(self.options.resized(IMAGE), self.kinds[self._kind()])

    def transforms(self) -> tuple[Transform, ...]:
        return self.options.image_transforms(self.mean, self.std)  # type: ignore[no-any-return]

    def load(self, split: str) -> ArraySplit:
        if self.options.root is None:
            raise DataError(f"data={self.name} needs a folder.", remedy="Set data.root to the folder of its files.")
        paths, read = self._find(split) or self._fetched(split)
        return self.options.limited(read(paths, self.kinds, self._kind()))  # type: ignore[no-any-return]

    def _find(self, split: str) -> tuple[list[Path], Reader] | None:
        """Returns a split's files and what reads them, None if there are none.

        Raises:
            DataError: Some of the files are there.
        """
        root = Path(self.options.root).expanduser()
        versions: tuple[tuple[str, tuple[str, ...], Reader], ...] = (
            (self.binary_folder, self.binary_files[split], read_binary),
            (self.python_folder, self.python_files[split], read_python),
        )
        for subfolder, names, read in versions:
            for folder in (root, root / subfolder):
                paths = [folder / name for name in names]
                if any(path.is_file() for path in paths):
                    self._check_all(paths)
                    return paths, read
        return None

    def _fetched(self, split: str) -> tuple[list[Path], Reader]:
        """Fetches the files if that is asked for, and returns what `_find` does."""
        if self.options.download:
            fetch(self.name, self.options, self.published, lambda: self._find(split) is not None)
        found = self._find(split)
        if found is None:
            raise DataError(
                f"Files of data={self.name} are missing in {Path(self.options.root).expanduser()}.",
                received=f"neither {', '.join(self.binary_files[split])} nor {', '.join(self.python_files[split])}",
                allowed=f"there, in {self.binary_folder} or in {self.python_folder}",
                remedy="Set data.root to their folder or its parent, or data.download=true to fetch them there.",
            )
        return found

    def _kind(self) -> str:
        return "labels"

    def _check_all(self, paths: list[Path]) -> None:
        missing = [path.name for path in paths if not path.is_file()]
        if missing:
            raise DataError(
                f"Files of data={self.name} are missing in {paths[0].parent}.",
                received=f"no {', '.join(missing)}",
                allowed=", ".join(path.name for path in paths),
                remedy="Unpack the archive again.",
            )


class Cifar100(Cifar10):
    """50,000 images for training and 10,000 for evaluation, 100 classes of 600 in 20 groups; memory-mapped."""

    name = "cifar100"
    Options = Cifar100Options
    mean = (129.3, 124.1, 112.4)
    std = (68.2, 65.4, 70.4)
    binary_folder = "cifar-100-binary"
    binary_files: ClassVar[Files] = {"train": ("train.bin",), "eval": ("test.bin",)}
    python_folder = "cifar-100-python"
    python_files: ClassVar[Files] = {"train": ("train",), "eval": ("test",)}
    published = Published(
        URL, {"cifar-100-binary.tar.gz": "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"}
    )
    kinds: ClassVar[dict[str, int]] = {"coarse_labels": 20, "fine_labels": 100}

    def _kind(self) -> str:
        return f"{self.options.labels.value}_labels"
