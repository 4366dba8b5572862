"""Composing a config without running Hydra's application, for commands that only look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from core.config.schema import RunConfig
from core.config.search_path import CONF, register
from core.config.typed import build_run_config

CONFIG_NAME = "config"
VERSION_BASE = "1.3"


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """Returns the plain values that Hydra composes from conf/ and `overrides`.

    Raises:
        hydra.errors.HydraException: An override does not parse or names something unknown.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    register()
    with initialize_config_dir(config_dir=str(CONF), version_base=VERSION_BASE):
        node = hydra_compose(CONFIG_NAME, overrides=list(overrides))
    return plain_values(node)


def plain_values(node: DictConfig) -> dict[str, Any]:
    """Returns a composed config as plain values, without the group `experiment`, which only chooses others."""
    container = OmegaConf.to_container(node, resolve=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items() if key != "experiment"}


def compose_run_config(overrides: Sequence[str]) -> RunConfig:
    """Returns the typed config for the arguments of a command line."""
    return build_run_config(compose(overrides))
