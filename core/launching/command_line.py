"""Running a command of the command line: errors of ours without a trace, exit codes, Hydra's errors in our words."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from core.errors import AnycardError, ConfigError, nearest
from core.launching.job import RunEnded
from core.launching.run import RunStopped
from core.plugin_system import load_catalogue

FULL_ERROR = "HYDRA_FULL_ERROR"


def run_command(body: Callable[[], int | None]) -> int:
    """Runs a command and returns its exit code.

    0 for success, 2 for a user's mistake, 1 for a run that failed, 128 + signal for one that was stopped. With
    HYDRA_FULL_ERROR=1 errors keep their trace.
    """
    wants_trace = os.environ.get(FULL_ERROR) == "1"
    try:
        return _unwrapped(body) or 0
    except RunStopped as stopped:
        print(f"{stopped}; continue with resume=auto hydra.run.dir={stopped.run_dir}", file=sys.stderr)
        return 128 + stopped.signal
    except KeyboardInterrupt:
        return 130
    except (AnycardError, HydraException, OmegaConfBaseException) as error:
        if wants_trace:
            raise
        translated = error if isinstance(error, AnycardError) else translate(error)
        print(translated.describe(), file=sys.stderr)
        return translated.exit_code


def _unwrapped(body: Callable[[], int | None]) -> int | None:
    """Runs a body under Hydra's raising mode; an error that was carried past Hydra is raised as itself."""
    try:
        with _hydra_raises():
            return body()
    except RunEnded as ended:
        raise ended.error from ended.error.__cause__


def translate(error: Exception) -> AnycardError:
    """Returns Hydra's or OmegaConf's complaint as one of ours."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.partition("/")
        if name:
            return _unknown_option(group, name, error.options or ())
    text = str(error).splitlines()[0].rstrip(".")
    match = re.match(r"Could not override '(.+?)'", text)
    if match:
        key = match.group(1)
        near = nearest(key, _known_keys())
        return ConfigError(f"Unknown key '{key}'.", remedy=f"Did you mean '{near}'?" if near else "See --help.")
    cause = f" {str(error.__cause__).splitlines()[0]}" if error.__cause__ else ""
    return ConfigError(f"{text}.{cause}")


def _unknown_option(group: str, name: str, options: Sequence[str]) -> AnycardError:
    """Returns the registry's error for an unknown option of a group, or says that its config file is missing."""
    catalogue = load_catalogue()
    if group in catalogue.registries:
        try:
            catalogue.get(group, name)
        except AnycardError as error:
            return error
        return ConfigError(
            f"Plugin '{catalogue.registries[group].provider(name)}' has no config file {group}/{name}.yaml.",
            allowed=", ".join(options),
        )
    near = nearest(name, options)
    return ConfigError(
        f"Unknown {group} '{name}'. Known: {', '.join(options)}.", remedy=f"Did you mean '{near}'?" if near else None
    )


def _known_keys() -> list[str]:
    """Returns every key of the default config, dotted."""
    from core.config.compose import compose

    def walk(node: Any, prefix: str) -> list[str]:
        if not isinstance(node, dict):
            return [prefix]
        return [
            *([prefix] if prefix else []),
            *(k for key, v in node.items() for k in walk(v, f"{prefix}.{key}".strip("."))),
        ]

    return walk(compose([]), "")


@contextlib.contextmanager
def _hydra_raises() -> Any:
    """Makes Hydra raise its errors instead of printing them, in this process only."""
    before = os.environ.get(FULL_ERROR)
    os.environ[FULL_ERROR] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FULL_ERROR]
        else:
            os.environ[FULL_ERROR] = before
