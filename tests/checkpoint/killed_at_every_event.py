"""Kills a process before each file operation of a save in turn.

Run as `python -m tests.checkpoint.killed_at_every_event FOLDER`; prints how many were killed. The save replaces the
checkpoint of its step, is the best, and prunes one. Each process is forked, counts the events that the interpreter
raises for file operations (`sys.addaudithook`), and kills itself at the n-th, for n from 0 until a save gets through.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from core.checkpoint import CheckpointStore, load_checkpoint
from tests.checkpoint.samples import assert_same, build_checkpoint

EVENTS = ("open", "os.", "shutil.")


def kill_everywhere(folder: Path) -> int:
    """Returns how many processes were killed."""
    for kill_at in itertools.count():
        shutil.rmtree(folder, ignore_errors=True)
        store = CheckpointStore(folder, keep=2)
        for step in (5, 10, 20):
            store.save(build_checkpoint(step), is_best=step == 5)
        pid = os.fork()
        if pid == 0:
            save_and_die(store, kill_at)
        _, status = os.waitpid(pid, 0)
        check(folder)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, status
            assert [path.name for path in store.paths()] == ["step-00000020", "step-00000010"]
            return kill_at
        assert os.WTERMSIG(status) == signal.SIGKILL
        store.save(build_checkpoint(30), is_best=False)
        assert not list(folder.glob(".*")), "the next save left what the killed one had begun"
        check(folder)
    raise AssertionError


def save_and_die(store: CheckpointStore, kill_at: int) -> None:
    events = itertools.count()

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(EVENTS) and next(events) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    store.save(build_checkpoint(20, mark=1), is_best=True)
    os._exit(0)


def check(folder: Path) -> None:
    """Checks that every listed checkpoint is whole and what was saved, and that the pointers point to whole ones."""
    store = CheckpointStore(folder, keep=2)
    found = [load_checkpoint(path) for path in store.paths()]
    for checkpoint in found:
        assert_same(checkpoint, build_checkpoint(checkpoint.position.step, checkpoint.progress["mark"]))
    assert found[0].position.step >= 20
    assert found[1].position.step >= 10
    for name in ("last", "best"):
        pointed = store.pointed(name)
        assert pointed is not None, f"{name}.json points to nothing"
        load_checkpoint(pointed)


if __name__ == "__main__":
    print(kill_everywhere(Path(sys.argv[1])))
