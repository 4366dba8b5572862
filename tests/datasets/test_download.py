"""Files are fetched from a server on this machine, and nothing wrong is kept."""

from __future__ import annotations

import functools
import hashlib
import http.server
import importlib.util
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.data import check_dataset
from core.datasets.cifar import Cifar10, Cifar100, Cifar100Options, CifarOptions
from core.datasets.download import Published
from core.datasets.idx import FashionMnist, Mnist, MnistOptions
from core.errors import ConfigError, DataError
from tests.datasets.made_files import write_cifar10_binary, write_cifar100_binary, write_idx_pair


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Yields a folder and the address under which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield folder, f"http://127.0.0.1:{serving.server_address[1]}/"
        serving.shutdown()
        thread.join()


def checksums(folder: Path) -> Published:
    """Returns the files of a folder as if they were published."""
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    return Published("nowhere", {name: f"sha256:{digest}" for name, digest in digests.items()})


@pytest.mark.parametrize("cls", [Mnist, FashionMnist])
def test_idx_files_are_fetched(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cls) -> None:
    folder, url = server
    for part in ("train", "t10k"):
        write_idx_pair(folder, part, 20, packed=True)
    assert {path.name for path in folder.iterdir()} == set(cls.published.checksums)
    monkeypatch.setattr(cls, "published", checksums(folder))
    data = cls(MnistOptions(root=str(tmp_path / "root"), download=True, url=url))
    assert check_dataset(data, ("train", "eval")) == {"train": 20, "eval": 20}


@pytest.mark.parametrize("cls", [Cifar10, Cifar100])
def test_archives_are_fetched_and_unpacked(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cls) -> None:
    folder, url = server
    write, options = (
        (write_cifar10_binary, CifarOptions) if cls is Cifar10 else (write_cifar100_binary, Cifar100Options)
    )
    write(tmp_path / cls.binary_folder)
    (name,) = cls.published.checksums
    with tarfile.open(folder / name, "w:gz") as tar:
        tar.add(tmp_path / cls.binary_folder, cls.binary_folder)
    monkeypatch.setattr(cls, "published", checksums(folder))
    root = tmp_path / "root"
    data = cls(options(root=str(root), download=True, url=url))
    assert check_dataset(data, ("train", "eval"))["eval"] == 20
    assert {path.name for path in root.iterdir()} == {".download.lock", cls.binary_folder}


def test_a_wrong_checksum_keeps_nothing(server, tmp_path: Path) -> None:
    folder, url = server
    for name in Mnist.published.checksums:
        (folder / name).write_bytes(b"something else")
    root = tmp_path / "root"
    with pytest.raises(DataError, match=r"is not the file that was published.*sha256:"):
        Mnist(MnistOptions(root=str(root), download=True, url=url)).load("train")
    assert [path.name for path in root.iterdir()] == [".download.lock"]


def test_an_archive_that_leaves_its_folder_is_refused(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, url = server
    (name,) = Cifar10.published.checksums
    with tarfile.open(folder / name, "w:gz") as tar:
        member = tarfile.TarInfo("../outside")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    monkeypatch.setattr(Cifar10, "published", checksums(folder))
    with pytest.raises(DataError, match="cannot be unpacked"):
        Cifar10(CifarOptions(root=str(tmp_path / "root"), download=True, url=url)).load("train")
    assert not (tmp_path / "outside").exists()


def test_what_is_missing_is_told(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, url = server
    with pytest.raises(DataError, match="cannot be fetched"):
        Mnist(MnistOptions(root=str(tmp_path / "root"), download=True, url=url)).load("train")
    with pytest.raises(DataError, match=r"needs a folder"):
        Cifar10(CifarOptions(download=True)).load("train")
    with pytest.raises(DataError, match=r"data\.download=true"):
        Cifar10(CifarOptions(root=str(tmp_path))).load("train")
    with pytest.raises(DataError, match=r"data\.download=true"):
        Mnist(MnistOptions(root=str(tmp_path))).load("train")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"(?s)pooch.*anycard\[download\]"):
        Mnist(MnistOptions(root=str(tmp_path), download=True, url=url)).load("train")
    with pytest.raises(ConfigError, match=r"data\.url"):
        MnistOptions(url=url)
