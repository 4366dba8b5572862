"""The one registry type for everything that is looked up by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from core.errors import PluginError, UnknownNameError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Names and what they stand for, each with the plugin that provides it.

    Args:
        kind: What is registered, in the singular, for messages: "backend".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, tuple[T, str]] = {}

    def add(self, name: str, value: T, provider: str) -> None:
        """Registers `value` under `name`.

        Raises:
            PluginError: The name is taken; names both plugins.
        """
        if name in self._entries:
            raise PluginError(
                f"Two plugins provide the {self.kind} '{name}'.",
                received=f"{self._entries[name][1]} and {provider}",
                remedy="Uninstall one of them, or name the plugins to load in ANYCARD_PLUGINS.",
            )
        self._entries[name] = (value, provider)

    def get(self, name: str, causes: Sequence[str] = ()) -> T:
        """Returns what `name` stands for.

        Args:
            name: The name to look up.
            causes: Sentences on why plugins that might have provided it did not load.

        Raises:
            UnknownNameError: Nobody provides it; lists the known names and the nearest spelling.
        """
        if name in self._entries:
            return self._entries[name][0]
        known = ", ".join(f"{entry} ({provider})" for entry, _, provider in self)
        near = nearest(name, self._entries)
        hints = [f"Did you mean '{near}'?"] if near else []
        raise UnknownNameError(
            f"Unknown {self.kind} '{name}'. Known: {known or 'none'}.", remedy="\n  ".join([*hints, *causes]) or None
        )

    def provider(self, name: str) -> str:
        """Returns the plugin that provides `name`."""
        return self._entries[name][1]

    def __iter__(self) -> Iterator[tuple[str, T, str]]:
        for name in sorted(self._entries):
            value, provider = self._entries[name]
            yield name, value, provider

    def __contains__(self, name: object) -> bool:
        return name in self._entries
