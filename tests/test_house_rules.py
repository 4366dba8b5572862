"""Rules of the house that a machine can check."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from core import hookspecs
from core.plugin_system.catalogue import KINDS
from tests.commands import ROOT

SOURCES = sorted(
    path
    for folder in ("core", "plugins", "examples", "benchmarks", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 300, "is there a second idea in it?"
    assert ast.get_docstring(ast.parse(text)), "a module says what it is"


@pytest.mark.parametrize("path", [path for path in SOURCES if path.is_relative_to(ROOT / "core")], ids=str)
def test_core_imports_no_framework_and_no_plugin(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & {"torch", "torch_npu", "mindspore", "jax", "plugins"}


# Which rooms a room may know; the ones that only hand out public names are left out.
LAYERS = [
    {"errors"},
    {"randomness"},
    {"spec"},
    {"layout"},
    {"contracts", "hookspecs"},
    {"sharders", "models", "datasets", "data", "checkpoint", "plugin_system"},
    {"config", "run_files"},
    {"training"},
    {"launching"},
    {"planning"},
]


def test_arrows_point_one_way() -> None:
    rank = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
    for path in (ROOT / "core").rglob("*.py"):
        room = path.relative_to(ROOT / "core").parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("core."):
                continue
            other = (node.module or "").split(".")[1]
            if room in rank and other in rank and room != other:
                assert rank[other] <= rank[room], f"{path.relative_to(ROOT)} knows core.{other}"


def test_every_hook_has_the_four_parts_and_a_kind() -> None:
    hooks = {name: value for name, value in vars(hookspecs).items() if name.startswith("anycard_")}
    assert {hook for hook, _ in KINDS.values()} | {"anycard_config_folders"} == set(hooks)
    for name, hook in hooks.items():
        text = inspect.getdoc(hook) or ""
        for part in ("Returns", "When:", "Combined:", "Example:"):
            assert part in text, f"{name} lacks '{part}'"
        example = text.split("Example:")[1].strip()
        assert name in (ROOT / example).read_text(), f"{example} does not implement {name}"


def test_no_abstract_class_asks_for_more_than_ten_methods() -> None:
    from core import contracts

    for name in ("Backend", "Communicator", "Engine", "Model", "Sharder", "Dataset", "Optimizer"):
        cls = getattr(contracts, name)
        assert 0 < len(cls.__abstractmethods__) <= 10, name
        for method in cls.__abstractmethods__:
            assert inspect.getdoc(getattr(cls, method)), f"{name}.{method} has no docstring"


def test_core_names_no_device_library() -> None:
    """The kinds of device are words of the config; no call of a framework hides in core."""
    for path in (ROOT / "core").rglob("*.py"):
        assert ".cuda." not in path.read_text()
        assert ".npu." not in path.read_text()
