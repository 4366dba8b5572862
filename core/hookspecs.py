"""The hooks by which a plugin joins anycard.

A plugin is a module or package with some of these functions, each marked `@hookimpl`. A pip-installed one names its
module under the entry-point group `anycard.plugins`; in-tree ones are the packages under `plugins/`. Hooks hand over
classes; behaviour lives in the abstract classes of `core.contracts`. Hook functions take no arguments and may import
the plugin's own modules, but no framework: they are called to list what is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from core.contracts import Backend, Communicator, Dataset, Model, Sharder

PROJECT = "anycard"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def anycard_backends() -> Sequence[type[Backend]]:  # type: ignore[empty-body]
    """Returns the backends of the plugin, subclasses of `core.Backend`, each with a `name`.

    When: once a process, the first time that a backend is looked up or plugins are listed.
    Combined: the lists of all plugins are joined; two backends of one name are an error that names both plugins.
    Example: plugins/torch_npu_backend/__init__.py
    """


@hookspec
def anycard_models() -> Sequence[type[Model]]:  # type: ignore[empty-body]
    """Returns the models of the plugin, subclasses of `core.Model`, each with a `name`.

    When: once a process, the first time that a model is looked up or plugins are listed.
    Combined: the lists of all plugins are joined; two models of one name are an error that names both plugins.
    Example: core/models/__init__.py
    """


@hookspec
def anycard_sharders() -> Sequence[type[Sharder]]:  # type: ignore[empty-body]
    """Returns the sharders of the plugin, subclasses of `core.Sharder`, each with a `name`.

    When: once a process, the first time that a sharder is looked up or plugins are listed.
    Combined: the lists of all plugins are joined; two sharders of one name are an error that names both plugins.
    Example: core/sharders/__init__.py
    """


@hookspec
def anycard_communicators() -> Sequence[type[Communicator[Any]]]:  # type: ignore[empty-body]
    """Returns the communicators of the plugin, subclasses of `core.Communicator`, each with a `name`.

    When: once a process, the first time that a communicator is looked up or plugins are listed.
    Combined: the lists of all plugins are joined; two communicators of one name are an error that names both plugins.
    Example: plugins/torch_npu_backend/__init__.py
    """


@hookspec
def anycard_datasets() -> Sequence[type[Dataset]]:  # type: ignore[empty-body]
    """Returns the data sets of the plugin, subclasses of `core.Dataset`, each with a `name`.

    When: once a process, the first time that a data set is looked up or plugins are listed.
    Combined: the lists of all plugins are joined; two data sets of one name are an error that names both plugins.
    Example: core/datasets/__init__.py
    """


@hookspec
def anycard_config_folders() -> Sequence[str]:  # type: ignore[empty-body]
    """Returns folders of config groups (backend/, model/, ...) to add to Hydra's search path.

    Each is a path of the file system, or `pkg://package.name`. A pip-installed plugin can name its config package under
    the entry-point group `anycard.config` instead, which is read without importing the plugin.

    When: once a process, before Hydra composes a config.
    Combined: all folders are searched, after anycard's own conf/, in the order in which plugins registered.
    Example: tests/plugin_system/stranger/anycard_stranger/__init__.py
    """
