"""The frozen config: what the parent composed, written once into the run directory and read by every rank."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from core.config.schema import RunConfig
from core.config.typed import RENAMED, build_run_config, to_plain
from core.errors import ConfigError

FILE_NAME = "config.json"


def plain_config(config: RunConfig) -> dict[str, Any]:
    """Returns the config as plain values under the keys that a user writes."""
    plain: dict[str, Any] = to_plain(config)
    for group, names in RENAMED.items():
        stored = {value: key for key, value in names.items()}
        plain[group] = {stored.get(key, key): value for key, value in plain[group].items()}
    return plain


def config_digest(config: RunConfig) -> str:
    """Returns a digest by which ranks assert that they read the same config."""
    return hashlib.sha256(json.dumps(plain_config(config), sort_keys=True).encode()).hexdigest()


def save_frozen(config: RunConfig, run_dir: Path) -> None:
    """Writes the config into the run directory, whole or not at all."""
    temporary = run_dir / f".{FILE_NAME}.{os.getpid()}"
    temporary.write_text(json.dumps(plain_config(config), indent=2) + "\n")
    temporary.replace(run_dir / FILE_NAME)


def load_frozen(run_dir: Path) -> RunConfig:
    """Returns the config that the parent froze.

    Raises:
        ConfigError: The file is missing or not what `save_frozen` writes.
    """
    path = run_dir / FILE_NAME
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read the frozen config {path}.", received=str(error)) from None
    return build_run_config(values)
