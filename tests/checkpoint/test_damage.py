"""Damage is named, and passed over by what looks for the newest whole checkpoint."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.checkpoint import CheckpointStore, load_checkpoint, save_checkpoint
from core.checkpoint.format import state_text
from core.errors import CheckpointError
from tests.checkpoint.samples import assert_same, build_checkpoint

MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"


def flip(path: Path, at: int, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def resign(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the content of state.json and gives it a digest that agrees."""
    content = json.loads(path.read_text())["content"]
    change(content)
    path.write_text(state_text(content))


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "first byte of the model": (MODEL, lambda path: flip(path, 0), "changed"),
    "last byte of the model": (MODEL, lambda path: flip(path, -1), "changed"),
    "last byte of the optimizer": (OPTIMIZER, lambda path: flip(path, -1), "changed"),
    "truncated model": (MODEL, truncate, "bytes instead of"),
    "truncated optimizer": (OPTIMIZER, truncate, "bytes instead of"),
    "truncated state": (STATE, truncate, "changed"),
    "empty state": (STATE, lambda path: path.write_text(""), "not what was written"),
    "state of another shape": (STATE, lambda path: path.write_text("[]"), "not what was written"),
    "state that is not text": (STATE, lambda path: path.write_bytes(b"\xff\xfe\x00"), "not what was written"),
    "no model": (MODEL, Path.unlink, "missing"),
    "no optimizer": (OPTIMIZER, Path.unlink, "missing"),
    "no state": (STATE, Path.unlink, "missing"),
    "a folder instead of a file": (MODEL, lambda path: (path.unlink(), path.mkdir()), MODEL),
    "no manifest entry": (STATE, lambda path: resign(path, lambda content: content["files"].pop(MODEL)), "manifest"),
    "another version": (STATE, lambda path: resign(path, lambda content: content.update(version=2)), "Received: 2"),
    "no position": (STATE, lambda path: resign(path, lambda content: content.pop("position")), "position"),
    "an unknown slot": (STATE, lambda path: resign(path, lambda content: content.update(slots=[])), "exp_avg"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(tmp_path: Path, damage: str) -> None:
    file, act, finding = DAMAGES[damage]
    folder = tmp_path / "step-00000007"
    save_checkpoint(folder, build_checkpoint(7))
    act(folder / file)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    for part in (str(folder), file, finding):
        assert part in str(caught.value)


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name not in ("no position", "an unknown slot")])
def test_damaged_ones_are_passed_over_and_named(tmp_path: Path, damage: str) -> None:
    store = CheckpointStore(tmp_path, keep=3)
    for step in (10, 20, 30):
        store.save(build_checkpoint(step), is_best=False)
    file, act, finding = DAMAGES[damage]
    for step in (20, 30):
        act(tmp_path / f"step-{step:08d}" / file)
    found, passed_over = CheckpointStore(tmp_path, keep=3).newest()
    assert found == tmp_path / "step-00000010"
    assert_same(load_checkpoint(found), build_checkpoint(10))
    assert len(passed_over) == 2
    for error, name in zip(passed_over, ("step-00000030", "step-00000020"), strict=True):
        assert name in str(error)
        assert file in str(error)
        assert finding in str(error)


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    """Every byte of state.json, and a byte in every part of the tensors' files."""
    folder = tmp_path / "step-00000007"
    save_checkpoint(folder, build_checkpoint(7))
    places = [(STATE, at) for at in range((folder / STATE).stat().st_size)]
    for name in (MODEL, OPTIMIZER):
        places += [(name, at) for at in range(0, (folder / name).stat().st_size, 97)]
    for index, (name, at) in enumerate(places):
        bit = 1 << index % 8
        flip(folder / name, at, bit)
        with pytest.raises(CheckpointError):
            load_checkpoint(folder)
        flip(folder / name, at, bit)
    assert_same(load_checkpoint(folder), build_checkpoint(7))


class Bomb:
    """Ends the test session if anyone unpickles it."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (77,)


def test_a_pickle_is_never_read(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    folder = store.save(build_checkpoint(7), is_best=True)
    for name in ("optimizer.pt", "state.pkl", "model.bin", "data.pkl"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
    np.save(tmp_path / "model.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    assert_same(load_checkpoint(folder), build_checkpoint(7))
    for name in (STATE, OPTIMIZER, MODEL):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(CheckpointError):
            load_checkpoint(folder)
    for name in ("last.json", "best.json"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    assert store.pointed("best") is None
