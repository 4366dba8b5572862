"""Runs on machines that are not quite in order, and under other interpreters."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.commands import ROOT
from tests.end_to_end.runs import summary, train

pytestmark = pytest.mark.slow


def test_the_host_name_need_not_resolve(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--uts", "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a UTS namespace")
    run = f"exec {sys.executable} -m core.train device=cpu cards=2 steps=3 hydra.run.dir=run"
    done = subprocess.run(
        [unshare, "--uts", "sh", "-c", f"echo no-such-host-anywhere > /proc/sys/kernel/hostname; {run}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert summary(tmp_path / "run")["steps"] == 3


def test_ranks_may_run_under_another_interpreter(tmp_path: Path) -> None:
    link = tmp_path / "venv-python"
    link.write_text(f'#!/bin/sh\nexport ANYCARD_TEST_MARK=other\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    done = train(tmp_path, "run", f"backend.python={link}", "backend.threads=1", "cards=2", "steps=2")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "run")["cards"] == 2


def test_a_large_mapped_data_set_is_not_read_into_memory(tmp_path: Path) -> None:
    """A million 28x28 images, 784 MB: the file is sparse on disk, but its pages count as any file's do."""
    count = 1_000_000
    samples = np.lib.format.open_memmap(
        tmp_path / "train_samples.npy", mode="w+", dtype=np.uint8, shape=(count, 28, 28)
    )
    samples[::50_000] = 200
    del samples
    np.save(tmp_path / "train_labels.npy", (np.arange(count) % 10).astype(np.uint8))
    arguments = ("data=arrays", f"data.root={tmp_path}", "cards=1", "steps=1500", "eval.every_epochs=0")
    done = train(tmp_path, "run", *arguments, "checkpoint.every_steps=0")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "run")["peak_rss_mb"][0] < 450
