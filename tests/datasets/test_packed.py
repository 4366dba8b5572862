"""A made folder is there whole or not at all, and is used again where its manifest fits."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from core.datasets.packed import MANIFEST, cache_root, open_packed, packed
from core.datasets.parallel import run_chunks
from core.errors import DataError


def make(folder: Path) -> dict[str, int]:
    np.save(folder / "x.npy", np.arange(5))
    return {"classes": 3}


def never(folder: Path) -> None:
    pytest.fail("it is there already")


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert packed(folder, {"n": 5}, make)["found"] == {"classes": 3}
    assert packed(folder, {"n": 5}, never)["found"] == {"classes": 3}
    assert open_packed(folder, "x").tolist() == [0, 1, 2, 3, 4]
    assert len(json.loads((folder / MANIFEST).read_text())["files"]["x.npy"]["sha256"]) == 64


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        make(folder)
        raise DataError("No.")

    with pytest.raises(DataError, match=r"No\."):
        packed(tmp_path / "a", {}, fail)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "x.npy").write_bytes(b"short"), r"x\.npy is damaged.*5 bytes.*Remove"),
        (lambda f: (f / "x.npy").unlink(), r"x\.npy is missing"),
        (lambda f: (f / MANIFEST).write_text("{}"), "cannot be read"),
        (lambda f: (f / MANIFEST).unlink(), "cannot be read"),
    ],
)
def test_damage_is_noticed(tmp_path: Path, damage, message: str) -> None:
    packed(tmp_path / "a", {}, make)
    damage(tmp_path / "a")
    with pytest.raises(DataError, match=f"(?s){message}"):
        packed(tmp_path / "a", {}, never)


def test_another_origin_is_noticed(tmp_path: Path) -> None:
    packed(tmp_path / "a", {"n": 1}, make)
    with pytest.raises(DataError, match="made from something else"):
        packed(tmp_path / "a", {"n": 2}, never)


def test_two_at_once_make_it_once(tmp_path: Path) -> None:
    calls = []

    def slow(folder: Path) -> None:
        calls.append(folder)
        time.sleep(0.2)
        make(folder)

    threads = [threading.Thread(target=packed, args=(tmp_path / "a", {}, slow)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert packed(tmp_path / "a", {}, never)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written.*\n.*data\.root"):
        packed(tmp_path / "file" / "a", {}, make)


def test_the_cache_is_where_the_system_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_root() == tmp_path / "anycard"
        patch.delenv("XDG_CACHE_HOME")
        patch.setenv("HOME", str(tmp_path))
        assert cache_root() == tmp_path / ".cache" / "anycard"


@pytest.mark.parametrize("workers", [1, 2])
def test_chunks_come_back_in_order_with_a_line_at_both_ends(workers: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_chunks("counting", abs, [-3, -1, -2], [1, 1, 1], workers) == [3, 1, 2]
    said = capsys.readouterr()
    assert said.err.startswith("counting: 3\ncounting: done in ")
    assert not said.out
