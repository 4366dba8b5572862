"""Images and labels in IDX files: MNIST, Fashion-MNIST, and any other pair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy.typing as npt

from core.contracts import ArraySplit, Dataset, Transform
from core.datasets.download import Published, PublishedOptions, fetch
from core.datasets.idx_file import read_idx
from core.datasets.options import ImageOptions
from core.errors import ConfigError, DataError
from core.spec import SampleSpec


@dataclass(kw_only=True)
class MnistOptions(PublishedOptions):
    """The options of data=mnist and data=fashion_mnist; root null: where the system's package puts the four files."""


@dataclass(kw_only=True)
class IdxOptions(ImageOptions):
    """The options of data=idx."""

    root: str | None = None  # folder of the files
    train_images: str = "train-images-idx3-ubyte"  # a file below root, as it is or with .gz
    train_labels: str = "train-labels-idx1-ubyte"
    eval_images: str = "t10k-images-idx3-ubyte"
    eval_labels: str = "t10k-labels-idx1-ubyte"
    num_classes: int = 10  # labels are 0 to num_classes - 1
    mean: float = 33.3  # of the bytes, over all pixels: MNIST's training images
    std: float = 78.6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_classes < 2:
            raise ConfigError("'data.num_classes' is out of range.", received=self.num_classes, allowed="at least 2")
        if self.std <= 0:
            raise ConfigError("'data.std' is out of range.", received=self.std, allowed="above 0")


class Idx(Dataset):
    """Two pairs of IDX files, plain (memory-mapped) or gzipped (unpacked into memory)."""

    name = "idx"
    Options: ClassVar[type] = IdxOptions
    default_root: ClassVar[str | None] = None
    package: ClassVar[str | None] = None  # Debian's package that brings the files
    published: ClassVar[Published | None] = None

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._arrays: dict[Path, npt.NDArray[Any]] = {}

    def sample_spec(self) -> SampleSpec:
        images = self._read("train_images", 3)
        return SampleSpec(self.options.resized((1, *images.shape[1:])), self._files.num_classes)

    def transforms(self) -> tuple[Transform, ...]:
        return self.options.image_transforms([self._files.mean], [self._files.std])  # type: ignore[no-any-return]

    def load(self, split: str) -> ArraySplit:
        images, labels = self._read(f"{split}_images", 3), self._read(f"{split}_labels", 1)
        if len(images) != len(labels):
            raise DataError(
                f"Images and labels of split '{split}' differ in number.",
                received=f"{len(images)} images in {self._path(f'{split}_images')}, {len(labels)} labels in "
                f"{self._path(f'{split}_labels')}",
            )
        return self.options.limited(ArraySplit(images[:, None], labels))  # type: ignore[no-any-return]

    @property
    def _files(self) -> IdxOptions:
        """The names of the files and what is known of them."""
        options: IdxOptions = self.options
        return options

    def _read(self, key: str, num_dims: int) -> npt.NDArray[Any]:
        """Returns the array behind a key; a gzipped file is unpacked once, however often it is asked for."""
        path = self._path(key)
        if path not in self._arrays:
            self._arrays[path] = read_idx(path, num_dims)
        return self._arrays[path]

    def _path(self, key: str) -> Path:
        """Returns the file behind a key.

        Raises:
            DataError: It is not there; lists all that are missing.
        """
        root = self.options.root or self.default_root
        remedy = "the folder of the IDX files" + (f", install Debian's package {self.package}" if self.package else "")
        if self.published is not None:
            remedy = f"{remedy}, or, with data.download=true, to the one into which they shall be fetched"
        if root is None:
            raise DataError(f"data={self.name} needs a folder.", remedy=f"Set data.root to {remedy}.")
        folder = Path(root).expanduser()
        found = _find(folder, getattr(self._files, key))
        if found is None and self.published is not None and self.options.download:
            fetch(self.name, self.options, self.published, lambda: _find(folder, getattr(self._files, key)) is not None)
            found = _find(folder, getattr(self._files, key))
        if found is None:
            keys = ("train_images", "train_labels", "eval_images", "eval_labels")
            missing = [name for k in keys if _find(folder, name := getattr(self._files, k)) is None]
            raise DataError(
                f"Files of data={self.name} are missing in {folder}.",
                received=f"no {', '.join(missing)}",
                allowed="these names, as they are or with .gz",
                remedy=f"Set data.root to {remedy}.",
            )
        return found


class Mnist(Idx):
    """MNIST under its usual file names: 60,000 and 10,000 digits of 28x28.

    Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998.
    """

    name = "mnist"
    Options = MnistOptions
    mean: ClassVar[float] = 33.3  # of the training images' bytes
    std: ClassVar[float] = 78.6
    published: ClassVar[Published | None] = Published(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    )

    @property
    def _files(self) -> IdxOptions:
        return IdxOptions(mean=self.mean, std=self.std)


class FashionMnist(Mnist):
    """Fashion-MNIST, MNIST's drop-in replacement with ten kinds of clothing.

    Source: Xiao, Rasul, Vollgraf 2017, arXiv:1708.07747.
    """

    name = "fashion_mnist"
    default_root = "/usr/share/datasets/fashion-mnist"
    package = "dataset-fashion-mnist"
    mean = 72.9
    std = 90.0
    published = Published(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "sha256:3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "sha256:a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "sha256:346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "sha256:67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    )


def _find(folder: Path, name: str) -> Path | None:
    """Returns the file of that name, also with .gz, also with the dot that some archives put for a dash."""
    for variant in (name, name.replace("-idx", ".idx")):
        for path in (folder / variant, folder / f"{variant}.gz"):
            if path.is_file():
                return path
    return None
