"""Everything that the plugins provide, by kind and name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.contracts import Backend, Communicator, Dataset, Model, Plugged, Sharder
from core.errors import PluginError
from core.plugin_system.discovery import SLOW_IMPORT_S, FailedPlugin, LoadedPlugin, load_plugins
from core.plugin_system.registry import Registry

KINDS: dict[str, tuple[str, type[Any]]] = {
    "backend": ("anycard_backends", Backend),
    "model": ("anycard_models", Model),
    "sharder": ("anycard_sharders", Sharder),
    "communicator": ("anycard_communicators", Communicator),
    "data": ("anycard_datasets", Dataset),
}


@dataclass(frozen=True)
class Catalogue:
    """The registries, one a kind, and the plugins behind them.

    Attributes:
        registries: By config group: backend, model, sharder, communicator, data.
        config_folders: Folders that plugins add to Hydra's search path.
        loaded: Plugins that are registered.
        failed: Plugins that are not, and why.
    """

    registries: dict[str, Registry[type[Any]]]
    config_folders: tuple[str, ...]
    loaded: tuple[LoadedPlugin, ...]
    failed: tuple[FailedPlugin, ...]

    def get(self, kind: str, name: str) -> type[Any]:
        """Returns the class that provides `name`.

        Raises:
            UnknownNameError: Nobody does. Plugins that failed to load are named with their cause.
        """
        return self.registries[kind].get(name, [plugin.sentence() for plugin in self.failed])

    def provided_by(self, plugin: str) -> dict[str, list[str]]:
        """Returns the names that a plugin provides, by kind."""
        return {
            kind: names
            for kind, registry in self.registries.items()
            if (names := [name for name, _, provider in registry if provider == plugin])
        }


@cache
def load_catalogue() -> Catalogue:
    """Returns the catalogue of this process; plugins are imported on the first call.

    Raises:
        PluginError: Two plugins provide the same name.
    """
    manager, loaded, failed = load_plugins()
    registries: dict[str, Registry[type[Any]]] = {kind: Registry(kind) for kind in KINDS}
    folders: list[str] = []
    kept: list[LoadedPlugin] = []
    for plugin in loaded:
        try:
            offers = {kind: _classes(manager, plugin, *KINDS[kind]) for kind in KINDS}
            plugin_folders = list(_call(manager, plugin, "anycard_config_folders") or ())
        except Exception as error:
            failed.append(FailedPlugin(plugin.candidate, f"{type(error).__name__}: {error}"))
            continue
        kept.append(plugin)
        folders += plugin_folders
        for kind, classes in offers.items():
            for cls in classes:
                registries[kind].add(cls.name, cls, plugin.candidate.name)
    return Catalogue(registries, tuple(folders), tuple(kept), tuple(failed))


def warn_of_failures(catalogue: Catalogue, write: Callable[[str], object] = sys.stderr.write) -> None:
    """Writes one line for each plugin that did not load or was slow to import."""
    for plugin in catalogue.failed:
        write(f"warning: {plugin.sentence()}\n")
    for slow in catalogue.loaded:
        if slow.import_s > SLOW_IMPORT_S:
            write(
                f"warning: Plugin '{slow.candidate.name}' took {slow.import_s:.1f} s to import; a plugin imports its "
                "framework inside functions.\n"
            )


def _call(manager: Any, plugin: LoadedPlugin, hook: str) -> Any:
    """Calls one hook of one plugin; None when the plugin does not implement it."""
    others = [other for _, other in manager.list_name_plugin() if other is not plugin.module]
    results = manager.subset_hook_caller(hook, remove_plugins=others)()
    return results[0] if results else None


def _classes(manager: Any, plugin: LoadedPlugin, hook: str, contract: type[Any]) -> list[type[Plugged]]:
    """Returns what one hook of one plugin hands over, checked against its contract."""
    classes = list(_call(manager, plugin, hook) or ())
    for cls in classes:
        if not (inspect.isclass(cls) and issubclass(cls, contract)):
            raise PluginError(f"{hook} must return subclasses of {contract.__name__}.", received=repr(cls))
        missing = sorted(getattr(cls, "__abstractmethods__", ()))
        if missing:
            raise PluginError(
                f"'{cls.__name__}' does not implement all of {contract.__name__}.", received=f"missing {missing}"
            )
        if not isinstance(getattr(cls, "name", None), str):
            raise PluginError(f"'{cls.__name__}' has no name.", allowed="a class attribute `name`, a string")
    return classes
