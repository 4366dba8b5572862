from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from core.data import check_dataset
from core.datasets.cifar import Cifar10, Cifar100, Cifar100Options, CifarLabels, CifarOptions
from core.errors import DataError
from tests.commands import run_module
from tests.datasets.made_files import (
    cifar_rows,
    write_cifar10_binary,
    write_cifar10_python,
    write_cifar100_binary,
    write_cifar100_python,
)

PARTS = [f"data_batch_{number}" for number in range(1, 6)]


def cifar10(root: Path) -> Cifar10:
    return Cifar10(CifarOptions(root=str(root)))


@pytest.mark.parametrize("is_inside", [False, True])
def test_the_binary_version_is_read_from_its_folder_or_the_parent(tmp_path: Path, is_inside: bool) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    written = write_cifar10_binary(folder)
    data = cifar10(folder if is_inside else tmp_path)
    assert check_dataset(data, ("train", "eval")) == {"train": 100, "eval": 20}
    train, evaluation = data.load("train"), data.load("eval")
    assert np.array_equal(train.samples.reshape(100, -1), np.concatenate([written[f"{p}.bin"] for p in PARTS]))
    assert np.array_equal(evaluation.samples.reshape(20, -1), written["test_batch.bin"])
    assert train.labels.tolist() == [n % 10 for n in range(20)] * 5
    assert isinstance(evaluation.samples, np.memmap)


@pytest.mark.parametrize("is_python2", [False, True])
def test_the_python_version_holds_the_same(tmp_path: Path, is_python2: bool) -> None:
    written = write_cifar10_python(tmp_path / "cifar-10-batches-py", is_python2)
    train = cifar10(tmp_path).load("train")
    assert train.samples.shape == (100, 3, 32, 32)
    assert np.array_equal(train.samples.reshape(100, -1), np.concatenate([written[p] for p in PARTS]))
    assert train.labels.tolist() == [n % 10 for n in range(20)] * 5


def test_the_binary_version_is_taken_where_both_are(tmp_path: Path) -> None:
    write_cifar10_python(tmp_path, is_python2=True)
    write_cifar10_binary(tmp_path / "cifar-10-batches-bin")
    assert isinstance(cifar10(tmp_path).load("eval").samples, np.memmap)


@pytest.mark.parametrize("version", ["binary", "python"])
@pytest.mark.parametrize(("labels", "num_classes", "step"), [("fine", 100, 5), ("coarse", 20, 1)])
def test_cifar100_has_two_kinds_of_labels(tmp_path: Path, version: str, labels, num_classes, step) -> None:
    write = write_cifar100_binary if version == "binary" else write_cifar100_python
    write(tmp_path / f"cifar-100-{version}")
    data = Cifar100(Cifar100Options(root=str(tmp_path), labels=CifarLabels(labels)))
    assert data.sample_spec().num_classes == num_classes
    assert check_dataset(data, ("train", "eval")) == {"train": 20, "eval": 20}
    assert data.load("train").labels.tolist() == [n * step % num_classes for n in range(20)]


def test_truncated_files_and_missing_ones_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs a folder"):
        Cifar10(CifarOptions()).load("train")
    with pytest.raises(DataError, match=r"missing.*data_batch_1\.bin"):
        cifar10(tmp_path).load("train")
    write_cifar10_binary(tmp_path)
    path = tmp_path / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"data_batch_3\.bin is truncated.*61360 bytes.*multiple of 3073"):
        cifar10(tmp_path).load("train")
    path.unlink()
    with pytest.raises(DataError, match=r"no data_batch_3\.bin"):
        cifar10(tmp_path).load("train")


def test_mislabelled_files_are_told(tmp_path: Path) -> None:
    write_cifar100_binary(tmp_path)
    write_cifar10_binary(tmp_path)
    (tmp_path / "train.bin").replace(tmp_path / "data_batch_1.bin")
    with pytest.raises(DataError, match="records of another data set"):
        cifar10(tmp_path).load("train")
    rows = np.concatenate([np.full((3, 1), 12, dtype=np.uint8), cifar_rows(3)], axis=1)
    (tmp_path / "test_batch.bin").write_bytes(rows.tobytes())
    with pytest.raises(DataError, match=r"labels, record 0\. Received: 12\. Allowed: 0 to 9"):
        cifar10(tmp_path).load("eval")


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"data": cifar_rows(2), "fine_labels": [1, 2]}, "lacks labels: it is mislabelled"),
        ({"data": cifar_rows(2), "labels": [1]}, "2 images and 1 labels"),
        ({"data": cifar_rows(2), "labels": ["a", "b"]}, "does not hold labels"),
        ({"data": cifar_rows(2), "labels": [1, 10]}, "record 1"),
        ({"data": cifar_rows(2)[:, :99], "labels": [1, 2]}, r"shape \(2, 99\)"),
        ({"data": 3, "labels": [1, 2]}, "does not hold images"),
    ],
)
def test_a_pickle_of_something_else_is_told(tmp_path: Path, batch, message: str) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(DataError, match=message):
        cifar10(tmp_path).load("eval")


def test_cifar_chooses_its_augmentation(tmp_path: Path) -> None:
    for more, crop in (((), 4), (("augment=none",), 0)):
        done = run_module("core.train", "--cfg", "job", "data=cifar10", "data.root=X", *more, cwd=tmp_path)
        assert f"crop_padding: {crop}\n" in done.stdout
