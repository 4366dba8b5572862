"""Finding plugins and registering them with pluggy.

Three sources, in this order: the core's own modules, the packages under plugins/ beside core/, and what installed
distributions name under the entry-point group `anycard.plugins`. Two variables of the environment steer it:
ANYCARD_PLUGINS, a comma-separated list, restricts what is loaded beside the core to the plugins named in it;
ANYCARD_TRACE_HOOKS=1 prints every hook call to standard error.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import pkgutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pluggy

import core
from core import hookspecs
from core.errors import PluginError, nearest

PLUGINS_VARIABLE = "ANYCARD_PLUGINS"
TRACE_VARIABLE = "ANYCARD_TRACE_HOOKS"
ENTRY_POINT_GROUP = "anycard.plugins"
SLOW_IMPORT_S = 1.0

CORE_PLUGINS = ("core.models", "core.sharders", "core.datasets")
IN_TREE_FOLDER = Path(core.__file__).parent.parent / "plugins"


@dataclass(frozen=True)
class Candidate:
    """A plugin that was found but not imported: its name, its module and who ships it."""

    name: str
    module: str
    distribution: str


@dataclass(frozen=True)
class LoadedPlugin:
    """A plugin that is registered."""

    candidate: Candidate
    module: ModuleType
    import_s: float


@dataclass(frozen=True)
class FailedPlugin:
    """A plugin that could not be loaded, and why in one line."""

    candidate: Candidate
    cause: str

    def sentence(self) -> str:
        """Returns what happened, for a warning or an error."""
        return (
            f"Plugin '{self.candidate.name}' ({self.candidate.module}, from {self.candidate.distribution}) did not "
            f"load: {self.cause}"
        )


def find_candidates() -> Iterator[Candidate]:
    """Yields every plugin there is, without importing any."""
    for module in CORE_PLUGINS:
        yield Candidate(module, module, "anycard")
    if IN_TREE_FOLDER.is_dir():
        for info in sorted(pkgutil.iter_modules([str(IN_TREE_FOLDER)]), key=lambda info: info.name):
            if info.ispkg:
                yield Candidate(f"plugins.{info.name}", f"plugins.{info.name}", "anycard")
    for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        dist = entry.dist
        yield Candidate(entry.name, entry.value, f"{dist.name} {dist.version}" if dist else "an unknown distribution")


def load_plugins() -> tuple[pluggy.PluginManager, list[LoadedPlugin], list[FailedPlugin]]:
    """Imports and registers what is found.

    Returns:
        The manager, the plugins that it holds, and those that failed.

    Raises:
        PluginError: ANYCARD_PLUGINS names a plugin that is not installed.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    if os.environ.get(TRACE_VARIABLE) == "1":
        manager.trace.root.setwriter(lambda line: print(line, end="", file=sys.stderr))
        manager.enable_tracing()
    loaded: list[LoadedPlugin] = []
    failed: list[FailedPlugin] = []
    for candidate in _restricted(list(find_candidates())):
        result = _load(manager, candidate)
        if isinstance(result, LoadedPlugin):
            loaded.append(result)
        else:
            failed.append(result)
    return manager, loaded, failed


def _restricted(candidates: list[Candidate]) -> list[Candidate]:
    """Returns the candidates that ANYCARD_PLUGINS allows, the core's own always among them."""
    value = os.environ.get(PLUGINS_VARIABLE)
    if value is None:
        return candidates
    wanted = {part.strip() for part in value.split(",") if part.strip()}
    known = {candidate.name for candidate in candidates}
    for name in sorted(wanted - known):
        near = nearest(name, known)
        raise PluginError(
            f"{PLUGINS_VARIABLE} names a plugin that is not installed.",
            received=name,
            allowed=", ".join(sorted(known)),
            remedy=f"Did you mean '{near}'?" if near else None,
        )
    return [candidate for candidate in candidates if candidate.name in wanted or candidate.module in CORE_PLUGINS]


def _load(manager: pluggy.PluginManager, candidate: Candidate) -> LoadedPlugin | FailedPlugin:
    """Imports one plugin and registers it; whatever its import raises becomes the cause."""
    begin = time.perf_counter()
    try:
        module = importlib.import_module(candidate.module)
        manager.register(module, name=candidate.name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return FailedPlugin(candidate, _one_line(error))
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        manager.unregister(name=candidate.name)
        known = [name for name in vars(hookspecs) if name.startswith("anycard_")]
        wrong = [name for name in vars(module) if name.startswith("anycard_") and name not in known]
        hints = [f"did you mean '{near}'?" for name in wrong if (near := nearest(name, known))]
        return FailedPlugin(candidate, " ".join([_one_line(error), *hints]))
    return LoadedPlugin(candidate, module, time.perf_counter() - begin)


def _one_line(error: BaseException) -> str:
    """Returns the type and message of an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
