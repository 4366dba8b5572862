"""Which checkpoints of a run are kept, found and pointed to."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from core.checkpoint import CheckpointStore, find_checkpoint, load_checkpoint
from core.errors import CheckpointError, ConfigError
from tests.checkpoint.samples import assert_same, build_checkpoint


def saved(folder: Path, steps: dict[int, bool], keep: int = 2) -> CheckpointStore:
    """Saves steps, each with whether it is the best."""
    store = CheckpointStore(folder, keep=keep)
    for step, is_best in steps.items():
        store.save(build_checkpoint(step), is_best=is_best)
    return store


def steps_of(store: CheckpointStore) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in store.paths()]


def damage(folder: Path, step: int) -> None:
    (folder / f"step-{step:08d}" / "model.safetensors").write_bytes(b"")


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    store = saved(tmp_path, {10: False, 20: True, 30: False, 40: False, 50: False})
    assert steps_of(store) == [50, 40, 20]
    assert sorted(os.listdir(tmp_path)) == ["best.json", "last.json", *(f"step-000000{n}" for n in (20, 40, 50))]
    store.save(build_checkpoint(60), is_best=True)
    assert steps_of(store) == [60, 50]


def test_pointers_name_last_and_best(tmp_path: Path) -> None:
    store = saved(tmp_path, {10: True, 20: False})
    assert store.pointed("last") == tmp_path / "step-00000020"
    assert store.pointed("best") == tmp_path / "step-00000010"
    best = json.loads((tmp_path / "best.json").read_text())
    assert best == {"checkpoint": "step-00000010", "metrics": build_checkpoint(10).metrics}
    checkpoint = build_checkpoint(30)
    checkpoint.metrics["eval_loss"] = math.nan
    store.save(checkpoint, is_best=False)
    assert json.loads((tmp_path / "last.json").read_text())["metrics"]["eval_loss"] is None


def test_a_step_that_is_saved_again_is_replaced(tmp_path: Path) -> None:
    store = saved(tmp_path, {10: False, 20: False})
    store.save(build_checkpoint(20, mark=1), is_best=True)
    assert steps_of(store) == [20, 10]
    assert_same(load_checkpoint(tmp_path / "step-00000020"), build_checkpoint(20, mark=1))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_damaged_ones_do_not_count_as_kept(tmp_path: Path) -> None:
    """After a resume from before a damaged one, the whole ones must not be pruned for its sake."""
    saved(tmp_path, {50: False, 100: False}, keep=2)
    damage(tmp_path, 100)
    store = CheckpointStore(tmp_path, keep=2)
    store.save(build_checkpoint(60), is_best=False)
    assert steps_of(store) == [100, 60, 50]
    found, passed_over = store.newest()
    assert found == tmp_path / "step-00000060"
    assert len(passed_over) == 1
    for step in (110, 120):
        store.save(build_checkpoint(step), is_best=False)
    assert steps_of(store) == [120, 110]


def test_going_back_does_not_remove_what_was_just_saved(tmp_path: Path) -> None:
    saved(tmp_path, {50: False, 100: False}, keep=2)
    store = CheckpointStore(tmp_path, keep=1)
    path = store.save(build_checkpoint(60), is_best=False)
    assert_same(load_checkpoint(path), build_checkpoint(60))


def test_nothing_is_removed_while_the_best_is_unknown(tmp_path: Path) -> None:
    store = saved(tmp_path, {10: True, 20: False}, keep=1)
    (tmp_path / "best.json").write_text("{")
    store.save(build_checkpoint(30), is_best=False)
    assert steps_of(store) == [30, 20, 10]


@pytest.mark.parametrize("keep", [0, -1])
def test_keep_is_at_least_one(tmp_path: Path, keep: int) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint\.keep.*at least 1"):
        CheckpointStore(tmp_path, keep=keep)


def test_an_empty_store_has_no_newest(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=1)
    assert store.newest() == (None, [])
    assert store.paths() == []
    assert store.pointed("last") is None
    assert not (tmp_path / "checkpoints").exists()


def test_reading_changes_nothing(tmp_path: Path) -> None:
    """Another process may be saving into the run that a user resumes from."""
    saved(tmp_path / "checkpoints", {10: True})
    (tmp_path / "checkpoints" / ".saving-step-00000020-abc").mkdir()
    before = sorted(tmp_path.rglob("*"))
    CheckpointStore(tmp_path / "checkpoints", keep=1).newest()
    find_checkpoint(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_one_that_was_about_to_be_replaced_still_counts(tmp_path: Path) -> None:
    store = saved(tmp_path, {10: False, 20: True})
    aside = tmp_path / ".replaced-step-00000020-abc"
    (tmp_path / "step-00000020").rename(aside)
    assert store.newest() == (aside, [])
    assert store.pointed("best") == aside
    assert_same(load_checkpoint(aside), build_checkpoint(20))
    store.save(build_checkpoint(30), is_best=False)
    assert steps_of(store) == [30, 20]
    assert not aside.exists()


def test_leftovers_are_removed_by_the_next_save(tmp_path: Path) -> None:
    store = saved(tmp_path, {10: False})
    (tmp_path / ".saving-best.json-abc").write_text("{")
    for name in (".saving-step-00000020-abc", ".removing-step-00000005-abc", ".replaced-step-00000010-abc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"half")
    store.save(build_checkpoint(20), is_best=False)
    assert sorted(os.listdir(tmp_path)) == ["last.json", "step-00000010", "step-00000020"]


def test_find_takes_what_a_user_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "step-size" / "checkpoints"
    saved(folder, {10: True, 20: False, 30: False})
    newest, best = folder / "step-00000030", folder / "step-00000010"
    for given, expected in (
        (folder.parent, newest),
        (folder, newest),
        (best, best),
        (folder / "last", newest),
        (folder / "best", best),
        (folder.parent / "best", best),
    ):
        assert find_checkpoint(given) == (expected, [])
    monkeypatch.chdir(folder)
    assert find_checkpoint(Path("best")) == (best, [])
    damage(folder, 30)
    found, passed_over = find_checkpoint(folder.parent)
    assert found == folder / "step-00000020"
    assert "step-00000030" in str(passed_over[0])
    for named in (folder / "last", newest):
        with pytest.raises(CheckpointError, match=r"step-00000030.*model\.safetensors"):
            find_checkpoint(named)


def test_find_says_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    saved(folder, {10: False})
    for missing in (folder / "step-00000099", folder / "best", tmp_path / "best", folder / "nothing"):
        with pytest.raises(CheckpointError, match=r"last\.json, step-00000010") as caught:
            find_checkpoint(missing)
        assert str(missing) in str(caught.value)
    damage(folder, 10)
    with pytest.raises(CheckpointError, match=r"no whole checkpoint.*step-00000010 is damaged: model\.safetensors"):
        find_checkpoint(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="holds nothing"):
        find_checkpoint(tmp_path / "empty")
