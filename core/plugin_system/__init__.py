"""Finding plugins, and the one registry of names."""

from core.plugin_system.catalogue import Catalogue, load_catalogue
from core.plugin_system.discovery import FailedPlugin, LoadedPlugin
from core.plugin_system.registry import Registry

__all__ = ["Catalogue", "FailedPlugin", "LoadedPlugin", "Registry", "load_catalogue"]
