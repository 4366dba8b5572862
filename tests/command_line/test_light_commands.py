"""Commands that only look are quick and import no framework."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import ROOT, entries, run_module

COMMANDS = [
    ("core.train", "--help"),
    ("core.train", "--cfg", "job"),
    ("core.train", "cards=0"),
    ("core.plugins",),
    ("core.plan", "cards=4"),
]
FRAMEWORKS = ("torch", "mindspore", "jax", "torch_npu")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_framework_is_imported(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = run_module(*command, cwd=tmp_path, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "omegaconf" in imported, "the list of imports was read"
    assert not {name for name in imported if name.split(".")[0] in FRAMEWORKS}
    assert entries(tmp_path) == []


def test_importing_core_imports_no_framework_and_no_plugin() -> None:
    code = (
        "import pkgutil, importlib, sys, core\n"
        "for info in pkgutil.walk_packages(core.__path__, 'core.'):\n"
        "    importlib.import_module(info.name)\n"
        f"print([n for n in sys.modules if n.split('.')[0] in {FRAMEWORKS!r} or n.startswith('plugins')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_names_every_group_and_key(tmp_path: Path) -> None:
    text = run_module("core.train", "--help", cwd=tmp_path).stdout
    for group in ("backend: ", "model: ", "data: ", "sharder: ", "communicator: ", "optimizer: ", "experiment: "):
        assert group in text
    for key in ("per_card", "every_epochs", "on_nan", "deterministic", "resume"):
        assert key in text
    assert re.search(r"backend: .*torch_npu", text)


def test_tab_completion_is_hydras(tmp_path: Path) -> None:
    done = run_module("core.train", "--shell-completion", "install=bash", cwd=tmp_path)
    assert "hydra_bash_completion" in done.stdout


def test_something_is_on_the_screen_soon_and_never_five_seconds_of_silence(tmp_path: Path) -> None:
    """Silence is measured between lines of a piped run, which gets no moving bar."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "core.train", "device=cpu", "cards=2", "steps=20", "eval.every_epochs=0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        begin = time.monotonic()
        moments = [time.monotonic() - begin for _ in process.stdout or ()]
    assert process.returncode == 0
    assert max(after - before for before, after in itertools.pairwise(moments)) < 5
