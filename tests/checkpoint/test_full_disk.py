"""A disk that is full loses nothing."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.checkpoint import CheckpointStore, load_checkpoint
from core.errors import CheckpointError
from tests.checkpoint.samples import assert_same, build_checkpoint

MOST_CALLS = 50


# Before Python 3.11 pathlib holds its own references to these calls, so that they cannot be made to fail from outside.
OF_PATHLIB = pytest.mark.skipif(sys.version_info < (3, 11), reason="pathlib's calls cannot be replaced before 3.11")


@pytest.mark.parametrize(
    "call", ["fsync", *(pytest.param(name, marks=OF_PATHLIB) for name in ("rename", "mkdir", "replace"))]
)
def test_any_call_that_fails_loses_nothing(tmp_path: Path, call: str) -> None:
    """Fails the first call of a save, then the second and so on, until a save gets through."""
    real = getattr(os, call)
    for fails_at in range(MOST_CALLS):
        folder = tmp_path / str(fails_at)
        store = CheckpointStore(folder, keep=1)
        store.save(build_checkpoint(10), is_best=False)
        store.save(build_checkpoint(20), is_best=True)
        calls = iter(range(MOST_CALLS))

        def failing(*args: object, calls: Iterator[int] = calls, fails_at: int = fails_at, **kwargs: object) -> object:
            if next(calls) == fails_at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, call, failing)
            try:
                store.save(build_checkpoint(20, mark=1), is_best=False)
            except CheckpointError as error:
                failure: CheckpointError | None = error
            else:
                failure = None
        if failure is None:
            assert fails_at > 0, f"os.{call} is never called"
            return
        assert "No space left on device" in str(failure)
        assert "still stand" in str(failure)
        assert not list(folder.glob(".saving-*")), "the temporary folder is left"
        found, damaged = CheckpointStore(folder, keep=1).newest()
        assert not damaged
        assert found == folder / "step-00000020"
        checkpoint = load_checkpoint(found)
        assert_same(checkpoint, build_checkpoint(20, mark=checkpoint.progress["mark"]))
        store.save(build_checkpoint(30), is_best=False)
        assert_same(load_checkpoint(folder / "step-00000030"), build_checkpoint(30))
    pytest.fail("no save got through")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few checkpoints (24 KiB each)."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() != 0 or mount is None or unmount is None:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run([mount, "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run([unmount, str(folder)], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    folder = small_disk / "checkpoints"
    store = CheckpointStore(folder, keep=1)
    store.save(build_checkpoint(10), is_best=True)
    before = sorted(folder.rglob("*"))
    filler = small_disk / "filler"
    for room in (0, 4, 8, 12, 16, 20):
        with filler.open("wb") as file:
            room_bytes = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
            file.write(bytes(max(0, room_bytes - room * 1024)))
        for step in (10, 20):
            with pytest.raises(CheckpointError, match=r"No space left on device.*\n.*still stand"):
                store.save(build_checkpoint(step, mark=1), is_best=False)
            assert sorted(folder.rglob("*")) == before
            assert_same(load_checkpoint(folder / "step-00000010"), build_checkpoint(10))
        filler.unlink()
    store.save(build_checkpoint(20), is_best=False)
    assert_same(load_checkpoint(folder / "step-00000020"), build_checkpoint(20))
