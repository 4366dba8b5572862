"""Where Hydra finds config files: conf/ beside core/, then the folders and packages that plugins name."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

import core
from core.plugin_system import load_catalogue

CONF = Path(core.__file__).parent.parent / "conf"
ENTRY_POINT_GROUP = "anycard.config"
MISSING = "missing:"


def config_sources() -> list[tuple[str, str]]:
    """Returns (provider, path) of every plugin's config folder, without anycard's own.

    Packages under the entry-point group are located without being imported, so that a plugin that does not load does no
    harm. One that is not where its metadata says has the path "missing: ...".
    """
    sources = [
        (entry.name, _locate(entry.value))
        for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    ]
    for folder in load_catalogue().config_folders:
        sources.append(("a plugin's hook", folder if "://" in folder else f"file://{folder}"))
    return sources


def _locate(package: str) -> str:
    """Returns the folder of a package as Hydra takes it; only the top package's finder is asked."""
    top, *rest = package.split(".")
    spec = importlib.util.find_spec(top)
    for location in (spec.submodule_search_locations if spec else None) or ():
        folder = Path(location, *rest)
        if folder.is_dir():
            return f"file://{folder}"
    return f"{MISSING} package {package}"


class PluginSearchPath(SearchPathPlugin):
    """Adds the plugins' config folders to Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Appends every folder, after anycard's own conf/."""
        for provider, path in config_sources():
            if not path.startswith(MISSING):
                search_path.append(provider=provider, path=path)


def register() -> None:
    """Makes Hydra look into the plugins' folders in this process."""
    Plugins.instance().register(PluginSearchPath)
