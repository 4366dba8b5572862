from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from core.data import check_dataset
from core.datasets import digits_million
from core.datasets.digit_deformation import deformed_digits, plain_digits
from core.datasets.digits import Digits, DigitsOptions
from core.datasets.digits_million import DigitsMillion, DigitsMillionOptions
from core.errors import ConfigError, DataError

COUNT = 2 * digits_million.CHUNK + 100  # three chunks


def million(root: Path, samples: int = COUNT, workers: int = 1, seed: int = 0) -> DigitsMillion:
    return DigitsMillion(DigitsMillionOptions(root=str(root), samples=samples, workers=workers, seed=seed))


def test_any_number_of_processes_makes_the_same_bytes(tmp_path: Path) -> None:
    digests = set()
    for workers in (1, 2, 3):
        million(tmp_path / str(workers), workers=workers).load("train")
        (manifest,) = (tmp_path / str(workers)).glob("*/manifest.json")
        digests.add(json.dumps(json.loads(manifest.read_text())["files"]))
    assert len(digests) == 1


def test_the_bytes_are_those_of_this_version() -> None:
    """If this fails, VERSION must rise: files made before would be used again."""
    samples, labels = deformed_digits(0, np.arange(3000))
    content = samples.tobytes() + labels.tobytes()
    assert (digits_million.VERSION, hashlib.sha256(content).hexdigest()[:16]) == (1, "decbb465918e35f7")


def test_a_sample_depends_on_its_number_alone() -> None:
    samples, labels = deformed_digits(3, np.arange(1000))
    some = np.array([999, 4, 500])
    few, few_labels = deformed_digits(3, some)
    assert np.array_equal(few, samples[some])
    assert np.array_equal(few_labels, labels[some])


def test_they_are_the_training_digits_deformed() -> None:
    samples, labels = deformed_digits(0, np.arange(1438 * 3))
    plain, plain_labels = plain_digits("train")
    assert np.array_equal(labels, np.tile(plain_labels, 3))
    copies = samples.reshape(3, 1438, 784).astype(np.float32)
    base = plain.reshape(1438, 784).astype(np.float32)
    assert all((copies[0] != copy).any(axis=1).all() for copy in (copies[1], copies[2], base))
    assert abs(samples.mean() - digits_million.MEAN) < 1
    assert abs(samples.std() - digits_million.STD) < 1
    # The nearest plain digit, pixel by pixel, is mostly one of the same class; by chance it were in a tenth.
    some = copies[1][::5]
    distances = (some**2).sum(axis=1)[:, None] - 2 * some @ base.T + (base**2).sum(axis=1)
    assert (plain_labels[distances.argmin(axis=1)] == plain_labels[::5]).mean() > 0.75


def test_evaluation_is_on_the_real_digits(tmp_path: Path) -> None:
    data = million(tmp_path, samples=50)
    evaluation = data.load("eval")
    assert check_dataset(data, ("train", "eval")) == {"train": 50, "eval": 359}
    real = Digits(DigitsOptions()).load("eval")
    assert np.array_equal(evaluation.labels, real.labels)
    shrunk = evaluation.samples[:, :, 1::7, 1::7] / (255 / 16)
    assert np.corrcoef(shrunk.ravel(), real.samples[:, :, ::2, ::2].ravel())[0, 1] > 0.9


def test_files_are_used_again_and_others_made_for_other_options(tmp_path: Path) -> None:
    first = million(tmp_path, samples=40).load("train")
    assert isinstance(first.samples, np.memmap)
    (made,) = tmp_path.glob("digits_million-*")
    before = (made / "samples.npy").stat().st_mtime_ns
    million(tmp_path, samples=40).load("train")
    assert (made / "samples.npy").stat().st_mtime_ns == before
    other = million(tmp_path, samples=40, seed=1).load("train")
    assert not np.array_equal(other.samples, first.samples)
    assert len(list(tmp_path.glob("digits_million-*"))) == 2


def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    million(tmp_path, samples=40).load("train")
    (path,) = tmp_path.glob("*/samples.npy")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"samples\.npy is damaged"):
        million(tmp_path, samples=40).load("train")


@pytest.mark.parametrize("values", [{"samples": 0}, {"workers": -1}])
def test_options_are_checked(values) -> None:
    with pytest.raises(ConfigError, match=f"data.{next(iter(values))}"):
        DigitsMillionOptions(**values)
