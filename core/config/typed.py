"""From untyped config nodes to checked dataclasses, with errors that name the key."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from core.config.schema import Choice, RunConfig
from core.errors import ConfigError, nearest

T = TypeVar("T")

CHOICES = ("backend", "model", "data", "sharder", "communicator", "optimizer", "schedule")
RENAMED = {"batch": {"global": "global_size"}}  # keys that Python does not take as names


def build_typed(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Returns an instance of the dataclass `cls` with `values`, each converted to its field's type.

    Args:
        cls: A dataclass.
        values: Plain values; missing ones keep their default.
        where: The key of the node, for messages ("optimizer"; "" at the top).

    Raises:
        ConfigError: A key is unknown or a value does not convert.
    """
    prefix = f"{where}." if where else ""
    fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            near = nearest(str(key), fields)
            raise ConfigError(
                f"Unknown key '{prefix}{key}'.",
                allowed=", ".join(sorted(fields)) or f"no options: '{where}' has none",
                remedy=f"Did you mean '{prefix}{near}'?" if near else None,
            )
    try:
        node = OmegaConf.merge(OmegaConf.structured(cls), dict(values))
        built = OmegaConf.to_object(node)
    except MissingMandatoryValue as error:
        raise ConfigError(f"'{prefix}{_leaf(error)}' is not set.", remedy="Give it on the command line.") from None
    except OmegaConfBaseException as error:
        key = str(getattr(error, "full_key", None) or getattr(error, "key", ""))
        if isinstance(error, ConfigKeyError):
            raise ConfigError(f"Unknown key '{prefix}{key}'.") from None
        raise ConfigError(
            f"'{prefix}{_shown(where, key)}' has a value of the wrong type.",
            received=repr(_value_at(values, key)),
            allowed=_type_of(cls, key),
        ) from None
    return typing.cast(T, built)


def build_run_config(values: Mapping[str, Any]) -> RunConfig:
    """Returns the typed config of a run from the plain values that Hydra composed.

    Raises:
        ConfigError: As `build_typed`; or a group has no `name`.
    """
    plain = {str(key): value for key, value in values.items()}
    for group in CHOICES:
        node = plain.get(group)
        if isinstance(node, str) or node is None:
            raise ConfigError(
                f"'{group}' must choose an option of the group {group}/.",
                received=repr(node),
                allowed="a name, or keys below it",
            )
        node = dict(node)
        if not isinstance(node.get("name"), str):
            raise ConfigError(f"'{group}.name' is not set.", remedy=f"Choose one with {group}=NAME.")
        if set(node) != {"name", "options"}:
            node = {"name": node.pop("name"), "options": node}
        plain[group] = node
    for group, names in RENAMED.items():
        if isinstance(plain.get(group), Mapping):
            plain[group] = {names.get(key, key): value for key, value in plain[group].items()}
    return build_typed(RunConfig, plain, "")


def to_plain(value: Any) -> Any:
    """Returns dataclasses, enums and containers as plain JSON values; choices are flat, as a user writes them."""
    if isinstance(value, Choice):
        return {"name": value.name, **to_plain(value.options)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def _leaf(error: OmegaConfBaseException) -> str:
    return str(getattr(error, "full_key", None) or getattr(error, "key", "") or "")


def _shown(where: str, key: str) -> str:
    """Returns a key as a user writes it."""
    for group, names in RENAMED.items():
        for written, stored in names.items():
            if f"{where}.{key}".strip(".") == f"{group}.{stored}":
                return f"{group}.{written}".removeprefix(f"{where}.")
    return key


def _value_at(values: Mapping[str, Any], key: str) -> Any:
    value: Any = values
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _type_of(cls: Any, key: str) -> str:
    """Returns the type of a possibly nested field in words, with an enum's values."""
    for part in key.split("."):
        if not dataclasses.is_dataclass(cls):
            break
        cls = typing.get_type_hints(cls).get(part, Any)
    inner = [arg for arg in typing.get_args(cls) if arg is not type(None)] or [cls]
    if isinstance(inner[0], type) and issubclass(inner[0], Enum):
        return ", ".join(str(member.value) for member in inner[0])
    words = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    text = words.get(inner[0], str(cls).replace("typing.", ""))
    return f"{text} or null" if type(None) in typing.get_args(cls) else text
