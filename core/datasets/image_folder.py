"""One's own images: a folder a split, in it a folder a class.

    ROOT/train/CLASS/*.png and ROOT/eval/CLASS/*.png (or val, or test)

They are decoded once, in parallel, into memory-mapped bytes: the shorter side is scaled to fit `resize`, then the
middle is cut out. Files are taken in the order of their names, and the arrays are made anew when a file's name, size or
time or an option changes. Pillow reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.contracts import ArraySplit, Dataset, Normalize, Transform
from core.datasets.image_decoding import decode_images, require_pillow
from core.datasets.options import ImageOptions
from core.datasets.packed import digest_of, open_packed, packed
from core.datasets.parallel import check_workers, num_processes
from core.errors import ConfigError, DataError
from core.spec import SampleSpec

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
SPLIT_FOLDERS = {"train": ("train",), "eval": ("eval", "val", "test")}  # the first that is there is taken
VERSION = 1  # rises when the bytes change


@dataclass(kw_only=True)
class ImageFolderOptions(ImageOptions):
    """The options of data=image_folder; `resize` is needed, and done when the images are packed."""

    root: str | None = None  # folder with train/ and eval/ in it
    cache: str | None = None  # folder for the packed arrays; null: beside root, with -packed added to its name
    channels: int = 3  # 3: colour, 1: grey
    workers: int = 0  # processes that decode; 0: one a core

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels not in (1, 3):
            raise ConfigError("'data.channels' is out of range.", received=self.channels, allowed="1 or 3")
        check_workers(self.workers)


class ImageFolder(Dataset):
    """Images in folders, packed once; mean and standard deviation are those of the training images."""

    name = "image_folder"
    Options = ImageFolderOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._folders: dict[str, Path] = {}
        self._found: dict[str, dict[str, Any]] = {}

    def sample_spec(self) -> SampleSpec:
        return SampleSpec(self._shape(), len(_classes(self._split_folder("train"))))

    def transforms(self) -> tuple[Transform, ...]:
        self._pack("train")
        found = self._found["train"]
        return (Normalize(tuple(found["mean"]), tuple(found["std"])),)

    def load(self, split: str) -> ArraySplit:
        folder = self._pack(split)
        return self.options.limited(ArraySplit(open_packed(folder, "samples"), open_packed(folder, "labels")))  # type: ignore[no-any-return]

    def _shape(self) -> tuple[int, int, int]:
        if self.options.resize is None:
            raise ConfigError(
                "'data.resize' is not set.",
                allowed="[height, width]",
                remedy="Images of a folder differ in size; say to which size they are packed.",
            )
        height, width = self.options.resize
        return self.options.channels, height, width

    def _root(self) -> Path:
        if self.options.root is None:
            raise DataError(f"data={self.name} needs a folder.", remedy="Set data.root to the one that holds train/.")
        return Path(self.options.root).expanduser().absolute()

    def _split_folder(self, split: str) -> Path:
        root = self._root()
        for name in SPLIT_FOLDERS[split]:
            if (root / name).is_dir():
                return root / name
        there = sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
        remedy = "Move some of the images of each class there, or set eval.every_epochs=0 to train without evaluation."
        raise DataError(
            f"There is no folder for split '{split}' in {root}.",
            received=f"folders: {', '.join(there) or 'none'}",
            allowed=", ".join(SPLIT_FOLDERS[split]),
            remedy=remedy if split == "eval" else "Set data.root to the folder that holds train/.",
        )

    def _pack(self, split: str) -> Path:
        """Returns the folder of a split's arrays, which are made first if they are not there."""
        if split not in self._folders:
            shape, source = self._shape(), self._split_folder(split)
            classes = self._same_classes(split, source)
            files = _files(source, classes)
            stats = [(str(path.relative_to(source)), path.stat()) for path, _ in files]
            made_from = {
                "split": split,
                "files": digest_of([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]),
                "shape": list(shape),
                "version": VERSION,
            }
            root = self._root()
            cache = (
                Path(self.options.cache).expanduser() if self.options.cache else root.with_name(f"{root.name}-packed")
            )
            folder = cache / f"{split}-{digest_of(made_from)}"

            def make(temporary: Path) -> dict[str, Any]:
                require_pillow()
                np.save(temporary / "labels.npy", np.array([label for _, label in files], dtype=np.int64))
                workers = num_processes(self.options.workers)
                mean, std = decode_images([path for path, _ in files], temporary / "samples.npy", shape, workers)
                return {"classes": classes, "mean": mean, "std": std}

            self._found[split] = packed(folder, made_from, make)["found"]
            self._folders[split] = folder
        return self._folders[split]

    def _same_classes(self, split: str, source: Path) -> list[str]:
        """Returns the classes of training, after a look whether those of `split` are the same."""
        known, mine = _classes(self._split_folder("train")), _classes(source)
        if known != mine:
            more, fewer = sorted(set(mine) - set(known)), sorted(set(known) - set(mine))
            raise DataError(
                f"The classes of split '{split}' are not those of training.",
                received=f"only in {source.name}/: {', '.join(more) or 'none'}; "
                f"only in train/: {', '.join(fewer) or 'none'}",
                allowed="the same folders in both",
            )
        return known


def _classes(source: Path) -> list[str]:
    """Returns the names of a split's classes, sorted; hidden folders are none.

    Raises:
        DataError: There are fewer than two.
    """
    found = sorted(path.name for path in source.iterdir() if path.is_dir() and not path.name.startswith("."))
    if len(found) < 2:
        raise DataError(f"{source} holds fewer than two classes.", received=", ".join(found) or "no folder")
    return found


def _files(source: Path, classes: list[str]) -> list[tuple[Path, int]]:
    """Returns a split's images with their labels, in the order of their names.

    Raises:
        DataError: A class has none.
    """
    files = []
    for label, name in enumerate(classes):
        mine = sorted(path for path in (source / name).iterdir() if path.suffix.lower() in ENDINGS)
        if not mine:
            raise DataError(f"{source / name} holds no image.", allowed=", ".join(f"*{end}" for end in ENDINGS))
        files += [(path, label) for path in mine]
    return files
