"""What pip installs works: as a wheel and editable, alone and in a multirun."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.commands import ROOT, run_module

pytestmark = pytest.mark.slow
STRANGER = ROOT / "tests" / "plugin_system" / "stranger"


def pip(*arguments: str) -> None:
    """Runs this environment's pip."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of anycard and of the stranger's plugin, built from copies so that nothing is left in the tree."""
    folder = tmp_path_factory.mktemp("wheels")
    source = folder / "anycard"
    skipped = shutil.ignore_patterns(".git", ".venv", "runs", "*.egg-info", "build", ".*_cache")
    shutil.copytree(ROOT, source, ignore=skipped)
    shutil.copytree(STRANGER, folder / "stranger")
    for path in (source, folder / "stranger"):
        pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(path))
    return folder


def test_the_wheel_holds_code_config_and_digits_and_no_tests(wheels: Path) -> None:
    (wheel,) = wheels.glob("anycard-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("core/train.py", "core/py.typed", "core/datasets/digits.npz", "conf/config.yaml"):
        assert name in names
    assert "conf/experiment/lenet5_ascend.yaml" in names
    assert "plugins/torch_npu_backend/cpu/pool.py" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "scripts/"))]


def test_wheels_find_each_other(wheels: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip("install", "--quiet", "--no-deps", "--target", str(site), *map(str, wheels.glob("*.whl")))
    work = tmp_path / "work"
    work.mkdir()
    environment = {"PYTHONPATH": str(site)}
    listed = run_module("core.plugins", cwd=work, environment=environment)
    assert "anycard-stranger 1.2.3" in listed.stdout, listed.stderr
    assert f"file://{site}/anycard_stranger/conf" in listed.stdout
    assert f"file://{site}/conf" in listed.stdout
    done = run_module("core.train", "device=cpu", "cards=1", "steps=2", cwd=work, environment=environment)
    assert done.returncode == 0, done.stderr


def test_an_editable_plugin_is_found_also_in_a_multirun(tmp_path: Path) -> None:
    shutil.copytree(STRANGER, tmp_path / "stranger")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ("install", "--quiet", "--no-deps", "--no-build-isolation", "-e", str(tmp_path / "stranger"))
    pip("--python", python, *install)
    work = tmp_path / "work"
    work.mkdir()
    arguments = ("device=cpu", "backend.threads=1", "steps=2", "cards=2", "hydra.sweep.dir=sweep")
    sweep = "sharder=everything_replicated,data_parallel"
    done = run_module("core.train", "-m", *arguments, sweep, cwd=work, python=python)
    assert done.returncode == 0, done.stderr
    assert "mesh copies=2, sharder everything_replicated" in done.stdout
    assert os.listdir(work) == ["sweep"]
