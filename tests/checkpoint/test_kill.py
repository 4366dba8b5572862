"""A process that is killed while it saves loses nothing that it had saved. `make kills` runs the long form."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from core.checkpoint import CheckpointStore, load_checkpoint
from tests.checkpoint.samples import assert_same, build_checkpoint
from tests.commands import ROOT, run_module

NUM_KILLS = int(os.environ.get("ANYCARD_KILLS", "12"))
LONGEST_S = 0.1


def test_killed_at_random_moments(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    moments = random.Random(0)
    before = 0
    for kill in range(NUM_KILLS):
        printed = save_until_killed(folder, moments.uniform(0, LONGEST_S))
        store = CheckpointStore(folder, keep=2)
        steps = []
        for path in store.paths():
            checkpoint = load_checkpoint(path)
            steps.append(checkpoint.position.step)
            assert_same(checkpoint, build_checkpoint(steps[-1], checkpoint.progress["mark"]))
        assert steps, f"kill {kill}: no checkpoint is left"
        assert steps[0] >= max(before, printed), f"kill {kill}: step {max(before, printed)} was saved and is gone"
        for name in ("last", "best"):
            if (folder / f"{name}.json").exists():
                assert store.pointed(name) is not None, f"kill {kill}: {name}.json points to nothing"
        before = steps[0]


def save_until_killed(folder: Path, seconds: float) -> int:
    """Kills a saving process some time after its first save, and returns the last step that it told of."""
    command = [sys.executable, "-m", "tests.checkpoint.saving_loop", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        rest = process.stdout.read()
    assert first, "the saving process ended before its first save"
    whole_lines = (first + rest).rpartition("\n")[0]
    return int(whole_lines.split()[-1])


def test_killed_before_every_file_operation(tmp_path: Path) -> None:
    done = run_module("tests.checkpoint.killed_at_every_event", str(tmp_path / "checkpoints"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20, "hardly anything was killed"
