"""What everything that is chosen by name has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(kw_only=True)
class NoOptions:
    """The options of something that has none."""


class Plugged:
    """Something that a config chooses by name.

    Attributes:
        name: What the config calls it.
        Options: A keyword-only dataclass: the keys that its config group takes beside `name`. Values are checked
            against the types, and in `__post_init__`.
        options: The instance's checked options.
    """

    name: ClassVar[str]
    Options: ClassVar[type] = NoOptions

    def __init__(self, options: Any) -> None:
        self.options = options
