from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from core.contracts import ArraySplit, Normalize, Resize
from core.data import check_dataset
from core.datasets import digits
from core.datasets.arrays import Arrays, ArraysOptions
from core.datasets.digits import Digits, DigitsOptions
from core.datasets.idx import FashionMnist, Idx, IdxOptions, Mnist, MnistOptions
from core.datasets.synthetic import Synthetic, SyntheticOptions
from core.errors import ConfigError, DataError
from core.plugin_system import load_catalogue
from tests.datasets.made_files import (
    write_cifar10_binary,
    write_cifar100_binary,
    write_idx_pair,
    write_images,
    write_texts,
)


def test_digits_are_the_1797_of_uci() -> None:
    data = Digits(DigitsOptions())
    train, evaluation = data.load("train"), data.load("eval")
    assert (len(train), len(evaluation)) == (1438, 359)
    assert train.samples.shape[1:] == (1, 8, 8)
    assert train.samples.max() == 16
    assert np.bincount(train.labels).min() > 120
    assert abs(train.samples.mean() - digits.MEAN) < 1e-3
    assert abs(train.samples.std() - digits.STD) < 1e-3
    assert "doi:10.24432/C50P49" in (digits.__doc__ or "")
    with np.load(digits.FILE, allow_pickle=False) as file:
        content = file["images"].tobytes() + file["labels"].tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == "87ff0c9e40dc7e2c"


def test_digits_are_brought_to_28x28_by_the_backend() -> None:
    data = Digits(DigitsOptions())
    assert data.sample_spec().shape == (1, 28, 28)
    assert data.transforms() == (Resize(28, 28), Normalize((digits.MEAN,), (digits.STD,)))
    assert Digits(DigitsOptions(resize=None)).sample_spec().shape == (1, 8, 8)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dataset", [Idx(IdxOptions()), Mnist(MnistOptions())], ids=["idx", "mnist"])
def test_idx_files_are_read_plain_and_gzipped(tmp_path: Path, packed: bool, dataset) -> None:
    dataset.options.root = str(tmp_path)
    images = write_idx_pair(tmp_path, "train", 20, packed)
    write_idx_pair(tmp_path, "t10k", 10, packed)
    train = dataset.load("train")
    assert np.array_equal(train.samples[:, 0], images)
    assert train.labels[13] == 3
    assert isinstance(train.samples, np.memmap) is not packed
    assert check_dataset(dataset, ("train", "eval")) == {"train": 20, "eval": 10}


@pytest.mark.skipif(not Path(FashionMnist.default_root or "").is_dir(), reason="dataset-fashion-mnist is not installed")
def test_fashion_mnist_of_debians_package() -> None:
    data = FashionMnist(MnistOptions())
    assert check_dataset(data, ("train", "eval")) == {"train": 60000, "eval": 10000}
    train = data.load("train")
    assert abs(train.samples.mean() - data.mean) < 0.1
    assert abs(train.samples.std() - data.std) < 0.1


def test_limit_takes_the_first_samples_of_each_split() -> None:
    data = Digits(DigitsOptions(limit=7))
    assert len(data.load("train")) == len(data.load("eval")) == 7


@pytest.mark.parametrize(
    ("shape", "dtype", "expected", "std"),
    [
        ((9, 6, 6), np.uint8, (1, 6, 6), 255.0),
        ((9, 3, 6, 6), np.float32, (3, 6, 6), 1.0),
        ((9, 5), np.float32, (5,), 1.0),
    ],
)
def test_arrays_stay_on_disk(tmp_path: Path, shape, dtype, expected, std) -> None:
    for split in ("train", "eval"):
        np.save(tmp_path / f"{split}_samples.npy", np.ones(shape, dtype=dtype))
        np.save(tmp_path / f"{split}_labels.npy", np.arange(9) % 4)
    data = Arrays(ArraysOptions(root=str(tmp_path)))
    assert data.sample_spec().shape == expected
    assert data.sample_spec().num_classes == 4
    assert isinstance(data.load("train").samples, np.memmap)
    (normalize,) = data.transforms()
    assert normalize.std == (std,) * expected[0]
    assert check_dataset(data, ("train", "eval")) == {"train": 9, "eval": 9}


def test_a_label_out_of_range_is_found_with_its_place(tmp_path: Path) -> None:
    np.save(tmp_path / "train_samples.npy", np.zeros((5, 4, 4), dtype=np.uint8))
    np.save(tmp_path / "train_labels.npy", np.array([0, 1, -2, 1, 9]))
    data = Arrays(ArraysOptions(root=str(tmp_path), num_classes=3))
    with pytest.raises(DataError, match=r"index 2.*Received: -2.*0 to 2"):
        check_dataset(data, ("train",))


def test_missing_arrays_are_named_with_what_is_there(tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"train_samples\.npy is missing.*other\.npy"):
        Arrays(ArraysOptions(root=str(tmp_path))).sample_spec()


def test_synthetic_data_are_the_same_each_time_and_can_be_told_apart() -> None:
    data = Synthetic(SyntheticOptions(samples=200, eval_samples=50, shape=[2, 6, 6], num_classes=4))
    one, two = data.load("train"), data.load("train")
    assert np.array_equal(one.samples, two.samples)
    assert one.samples.shape == (200, 2, 6, 6)
    means = np.stack([one.samples[one.labels == k].mean(axis=0) for k in range(4)])
    nearest = ((one.samples[:, None] - means) ** 2).sum(axis=(2, 3, 4)).argmin(axis=1)
    assert (nearest == one.labels).mean() > 0.95
    assert check_dataset(data, ("train", "eval")) == {"train": 200, "eval": 50}


@pytest.mark.parametrize("values", [{"limit": 0}, {"resize": [3]}, {"resize": [0, 4]}])
def test_shared_options_are_checked(values) -> None:
    with pytest.raises(ConfigError, match=f"data.{next(iter(values))}"):
        DigitsOptions(**values)


@pytest.mark.parametrize("name", [name for name, _, _ in load_catalogue().registries["data"]])
def test_every_data_set_says_what_it_loads(name: str, tmp_path: Path) -> None:
    """No data set claims a shape that its transforms do not give; those that need files are given some."""
    for part in ("train", "t10k"):
        write_idx_pair(tmp_path, part, 30, packed=False)
    for split in ("train", "eval"):
        np.save(tmp_path / f"{split}_samples.npy", np.zeros((30, 4, 5), dtype=np.uint8))
        np.save(tmp_path / f"{split}_labels.npy", np.arange(30) % 10)
    write_cifar10_binary(tmp_path)
    write_cifar100_binary(tmp_path)
    write_images(tmp_path)
    write_texts(tmp_path)
    cls = load_catalogue().get("data", name)
    options = cls.Options()
    if hasattr(options, "root"):
        options.root = str(tmp_path)
    if name == "digits_million":
        options.samples = 30
    if hasattr(options, "cache"):
        options.cache = str(tmp_path / "cache")
    if name == "image_folder":
        options.resize, options.workers = [6, 6], 1
    assert check_dataset(cls(options), ("train", "eval"))["train"] > 0


def test_arrays_of_different_length_are_told() -> None:
    class Uneven(Digits):
        def load(self, split: str) -> ArraySplit:
            whole = super().load(split)
            return ArraySplit(whole.samples[:-1], whole.labels)

    with pytest.raises(DataError, match="1437 samples and 1438 labels"):
        check_dataset(Uneven(DigitsOptions()), ("train",))
