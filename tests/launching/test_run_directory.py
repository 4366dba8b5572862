from __future__ import annotations

import threading
from pathlib import Path

import pytest

from core.config.freeze import FILE_NAME
from core.errors import ConfigError
from core.launching.run_directory import claim


def test_two_runs_that_want_one_folder_get_two(tmp_path: Path) -> None:
    wanted = tmp_path / "runs" / "now"
    with claim(wanted, is_explicit=False, resumes=False) as first:
        (first / FILE_NAME).write_text("{}")
        with claim(wanted, is_explicit=False, resumes=False) as second:
            (second / FILE_NAME).write_text("{}")
            assert first == wanted
            assert second == wanted.with_name("now-2")


def test_many_at_once_get_as_many_folders(tmp_path: Path) -> None:
    got: list[Path] = []
    gate = threading.Barrier(8)

    def take() -> None:
        gate.wait()
        with claim(tmp_path / "now", is_explicit=False, resumes=False) as folder:
            (folder / FILE_NAME).write_text("{}")
            got.append(folder)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(got)) == 8


def test_a_folder_that_was_named_is_not_exchanged_for_another(tmp_path: Path) -> None:
    with claim(tmp_path / "mine", is_explicit=True, resumes=False) as folder:
        (folder / FILE_NAME).write_text("{}")
        with (
            pytest.raises(ConfigError, match="used by another live run"),
            claim(tmp_path / "mine", is_explicit=True, resumes=True),
        ):
            pass
    with (
        pytest.raises(ConfigError, match="holds a run already"),
        claim(tmp_path / "mine", is_explicit=True, resumes=False),
    ):
        pass
    with claim(tmp_path / "mine", is_explicit=True, resumes=True) as folder:
        assert folder == tmp_path / "mine"


def test_a_run_that_wrote_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="early"), claim(tmp_path / "runs" / "now", is_explicit=False, resumes=False):
        raise ValueError("early")
    assert list(tmp_path.iterdir()) == []
