"""One's own arrays: a pair of .npy files a split, of any size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.contracts import ArraySplit, Dataset, Transform
from core.datasets.options import ImageOptions, MappedOptions
from core.errors import DataError
from core.spec import SampleSpec


@dataclass(kw_only=True)
class ArraysOptions(ImageOptions, MappedOptions):
    """The options of data=arrays."""

    root: str | None = None  # folder of the files; null: the current one
    train_samples: str = "train_samples.npy"  # (N, H, W), (N, C, H, W) or (N, features), uint8 or float32
    train_labels: str = "train_labels.npy"  # (N,), any integer dtype
    eval_samples: str = "eval_samples.npy"
    eval_labels: str = "eval_labels.npy"
    num_classes: int | None = None  # null: the training labels' largest, plus one
    mean: list[float] | None = None  # a channel, in the arrays' units; null: 0
    std: list[float] | None = None  # null: 255 for uint8, 1 for float32


class Arrays(Dataset):
    """Arrays in .npy files, memory-mapped: a million images train without being read into memory."""

    name = "arrays"
    Options = ArraysOptions

    def sample_spec(self) -> SampleSpec:
        samples = self._samples("train")
        classes = self.options.num_classes or int(self._open("train_labels").max()) + 1
        return SampleSpec(self.options.resized(samples.shape[1:]), classes)

    def transforms(self) -> tuple[Transform, ...]:
        samples = self._samples("train")
        scale = 255.0 if samples.dtype == np.uint8 else 1.0
        channels = samples.shape[1]
        mean = self.options.mean or [0.0] * channels
        std = self.options.std or [scale] * channels
        return self.options.image_transforms(mean, std)  # type: ignore[no-any-return]

    def load(self, split: str) -> ArraySplit:
        samples, labels = self._samples(split), self._open(f"{split}_labels")
        path = self._path(f"{split}_labels")
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            raise DataError(
                f"{path} does not hold labels.",
                received=f"{labels.dtype} of shape {labels.shape}",
                allowed="integers of shape (N,)",
            )
        if len(samples) != len(labels):
            raise DataError(
                f"Samples and labels of split '{split}' differ in number.",
                received=f"{len(samples)} in {self._path(f'{split}_samples')}, {len(labels)} in {path}",
            )
        return self.options.limited(ArraySplit(samples, labels))  # type: ignore[no-any-return]

    def _samples(self, split: str) -> npt.NDArray[Any]:
        """Returns a split's samples with a channel dim, not copied."""
        samples = self._open(f"{split}_samples")
        if samples.dtype not in (np.uint8, np.float32) or samples.ndim not in (2, 3, 4):
            raise DataError(
                f"{self._path(f'{split}_samples')} does not hold samples.",
                received=f"{samples.dtype} of shape {samples.shape}",
                allowed="uint8 or float32 of shape (N, H, W), (N, C, H, W) or (N, features)",
            )
        return np.expand_dims(samples, 1) if samples.ndim == 3 else samples

    def _open(self, key: str) -> npt.NDArray[Any]:
        path = self._path(key)
        try:
            array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            return array
        except FileNotFoundError:
            folder = path.parent
            there = ", ".join(sorted(item.name for item in folder.glob("*.npy"))) if folder.is_dir() else ""
            raise DataError(
                f"{path} is missing.",
                received=f"arrays in that folder: {there or 'none'}",
                remedy=f"Set data.root, or data.{key}"
                + (", or eval.every_epochs=0 to train without evaluation." if key.startswith("eval") else "."),
            ) from None
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} is not a whole .npy file of numbers.", received=str(error)) from None

    def _path(self, key: str) -> Path:
        return Path(self.options.root or ".").expanduser().absolute() / str(getattr(self.options, key))
