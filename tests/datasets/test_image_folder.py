from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from core.data import check_dataset
from core.datasets.image_folder import ImageFolder, ImageFolderOptions
from core.errors import ConfigError, DataError
from tests.datasets.made_files import write_images


def images(root: Path, **more) -> ImageFolder:
    return ImageFolder(ImageFolderOptions(root=str(root), **{"resize": [6, 8], "workers": 1, **more}))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("workers", [1, 2])
def test_images_are_packed_in_the_order_of_their_names(tmp_path: Path, channels: int, workers: int) -> None:
    write_images(tmp_path / "data")
    data = images(tmp_path / "data", channels=channels, workers=workers)
    assert check_dataset(data, ("train", "eval")) == {"train": 10, "eval": 4}
    train = data.load("train")
    assert isinstance(train.samples, np.memmap)
    assert train.labels.tolist() == [0] * 5 + [1] * 5
    assert train.samples.shape == (10, channels, 6, 8)
    assert train.samples[7].mean() == pytest.approx(120, abs=3)  # class 1, image 2: see write_images
    (normalize,) = data.transforms()
    assert normalize.mean == pytest.approx(train.samples.mean(axis=(0, 2, 3)))
    assert normalize.std == pytest.approx(train.samples.std(axis=(0, 2, 3)))


def test_the_middle_is_cut_out(tmp_path: Path) -> None:
    from PIL import Image

    write_images(tmp_path / "data")
    wide = np.zeros((6, 40, 3), dtype=np.uint8)
    wide[:, 16:24] = 255
    Image.fromarray(wide).save(tmp_path / "data" / "train" / "cat" / "0.png")
    assert (images(tmp_path / "data").load("train").samples[0] == 255).all()


def test_arrays_are_used_again_until_a_file_or_an_option_changes(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_images(root)
    images(root).load("train")
    images(root).load("train")
    packs = lambda: list((tmp_path / "data-packed").glob("train-*"))  # noqa: E731
    assert len(packs()) == 1
    images(root, resize=[5, 5]).load("train")
    assert len(packs()) == 2
    (root / "train" / "cat" / "0.png").write_bytes((root / "train" / "cat" / "1.png").read_bytes())
    images(root).load("train")
    assert len(packs()) == 3
    images(root, cache=str(tmp_path / "elsewhere")).load("train")
    assert len(list((tmp_path / "elsewhere").glob("train-*"))) == 1


def test_unreadable_images_are_named_at_once(tmp_path: Path) -> None:
    write_images(tmp_path / "data")
    for number in range(3):
        (tmp_path / "data" / "train" / "dog" / f"{number}.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"3 of 10 images cannot be read.*0\.png.*1\.png.*2\.png"):
        images(tmp_path / "data").load("train")
    assert not list((tmp_path / "data-packed").glob("train-*"))


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with pytest.raises(DataError, match="no folder for split 'train'"):
        images(root).load("train")
    write_images(root)
    (root / "val").rename(root / "validation")
    with pytest.raises(
        DataError, match=r"(?s)no folder for split 'eval'.*train, validation.*eval, val, test.*Move some"
    ):
        images(root).load("eval")
    (root / "validation").rename(root / "test")
    (root / "test" / "cat").rename(root / "test" / "cow")
    with pytest.raises(DataError, match=r"only in test/: cow; only in train/: cat"):
        images(root).load("eval")
    with pytest.raises(ConfigError, match=r"'data\.resize' is not set"):
        images(root, resize=None).load("train")
    with pytest.raises(ConfigError, match=r"data\.channels"):
        images(root, channels=2)


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_images(tmp_path / "data")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"(?s)Pillow.*anycard\[images\]"):
        images(tmp_path / "data").load("train")
