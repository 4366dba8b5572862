"""Plugins from other distributions, found through the metadata that pip installs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.commands import ROOT, run_module

STRANGER = Path(__file__).parent / "stranger"


def install(folder: Path, module_source: str | None = None, hooks_module: str = "anycard_stranger") -> dict[str, str]:
    """Lays a plugin out as pip would, with its metadata, and returns the variables that make Python find it."""
    shutil.copytree(STRANGER / "anycard_stranger", folder / "anycard_stranger")
    if module_source is not None:
        (folder / "anycard_stranger" / "__init__.py").write_text(module_source)
    info = folder / "anycard_stranger-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: anycard-stranger\nVersion: 1.2.3\n")
    (info / "entry_points.txt").write_text(
        f"[anycard.plugins]\nstranger = {hooks_module}\n\n[anycard.config]\nstranger = anycard_stranger.conf\n"
    )
    return {"PYTHONPATH": f"{ROOT}:{folder}"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_a_stranger_is_listed_with_its_distribution_and_config(tmp_path: Path, work: Path) -> None:
    done = run_module("core.plugins", cwd=work, environment=install(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "anycard-stranger 1.2.3" in done.stdout
    assert "sharder: everything_replicated" in done.stdout
    assert f"config of stranger: file://{tmp_path}/anycard_stranger/conf" in done.stdout


def test_its_sharder_and_config_work_like_the_cores(tmp_path: Path, work: Path) -> None:
    environment = install(tmp_path)
    done = run_module("core.plan", "sharder=everything_replicated", "cards=2", cwd=work, environment=environment)
    assert done.returncode == 0, done.stderr
    assert "mesh copies=2" in done.stdout
    done = run_module("core.plan", "experiment=strange", "sharder.axis=own", cwd=work, environment=environment)
    assert "mesh own=3" in done.stdout, done.stderr


@pytest.mark.parametrize("broken", ["import no_such_module\n", "raise SystemExit(3)\n", "def f(:\n"])
def test_a_broken_plugin_that_is_not_needed_costs_one_warning(tmp_path: Path, work: Path, broken: str) -> None:
    done = run_module("core.plan", "cards=2", cwd=work, environment=install(tmp_path, broken))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("warning: Plugin 'stranger' (anycard_stranger, from anycard-stranger 1.2.3) did not")


def test_a_broken_plugin_that_is_needed_is_an_error_with_its_cause(tmp_path: Path, work: Path) -> None:
    environment = install(tmp_path, "import no_such_module\n")
    done = run_module("core.plan", "sharder=everything_replicated", cwd=work, environment=environment)
    assert done.returncode == 2
    assert "Unknown sharder 'everything_replicated'" in done.stderr or "No module named" in done.stderr
    assert "No module named 'no_such_module'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_misspelt_hook_is_told_with_the_nearest(tmp_path: Path, work: Path) -> None:
    source = "from core import hookimpl\n@hookimpl\ndef anycard_backend():\n    return []\n"
    done = run_module("core.plugins", cwd=work, environment=install(tmp_path, source))
    assert "did you mean 'anycard_backends'?" in done.stdout


def test_two_plugins_of_one_name_are_an_error_that_names_both(tmp_path: Path, work: Path) -> None:
    source = (
        "from core import hookimpl\n@hookimpl\ndef anycard_sharders():\n"
        "    from core.sharders.hybrid import Hybrid\n    return [Hybrid]\n"
    )
    done = run_module("core.plan", cwd=work, environment=install(tmp_path, source))
    assert done.returncode == 2
    assert "core.sharders and stranger" in done.stderr


def test_what_breaks_the_contract_is_told(tmp_path: Path, work: Path) -> None:
    source = (
        "from core import Sharder, hookimpl\nclass Half(Sharder):\n    name = 'half'\n"
        "@hookimpl\ndef anycard_sharders():\n    return [Half]\n"
    )
    done = run_module("core.plugins", cwd=work, environment=install(tmp_path, source))
    assert "'Half' does not implement all of Sharder" in done.stdout
    assert "plan" in done.stdout


def test_one_variable_restricts_what_is_loaded(tmp_path: Path, work: Path) -> None:
    environment = {**install(tmp_path, "import no_such_module\n"), "ANYCARD_PLUGINS": "plugins.torch_npu_backend"}
    done = run_module("core.plugins", cwd=work, environment=environment)
    assert "stranger" not in done.stdout.split("config of")[0]
    assert "backend: torch_npu" in done.stdout
    done = run_module("core.plugins", cwd=work, environment={**environment, "ANYCARD_PLUGINS": "strangr"})
    assert done.returncode == 2
    assert "Did you mean 'stranger'?" in done.stderr


def test_one_variable_traces_every_hook_call(work: Path) -> None:
    done = run_module("core.plugins", cwd=work, environment={"ANYCARD_TRACE_HOOKS": "1"})
    assert "anycard_backends" in done.stderr
    assert "anycard_config_folders" in done.stderr
