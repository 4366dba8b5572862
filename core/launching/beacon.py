"""Signs of life in a shared directory: a small file that one process rewrites, and others see change."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

BEAT_S = 1.0


class Beacon:
    """Keeps a file changing for as long as this process lives.

    The file is rewritten in place: on network file systems a reader who opens it then sees it, whereas a file that was
    renamed into its place can stay hidden behind the cached folder for half a minute.

    Args:
        path: The file; its folder must exist.
        fields: What it says beside the beat.
    """

    def __init__(self, path: Path, **fields: Any) -> None:
        self._path = path
        self._fields = fields
        self._count = 0
        self._last = 0.0
        self.say()

    def say(self, **fields: Any) -> None:
        """Changes some fields, at once."""
        self._fields |= fields
        self._count += 1
        self._last = time.monotonic()
        self._path.write_text(json.dumps({**self._fields, "beat": self._count}))

    def beat(self) -> None:
        """Changes the file if it has stood for a second; called often."""
        if time.monotonic() - self._last >= BEAT_S:
            self.say()


class Sight:
    """What one process sees of another's beacon.

    Args:
        path: The file, which may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_look: float | None = None
        self.said: dict[str, Any] = {}
        self.silence_s = 0.0

    def look(self) -> bool:
        """Reads the file and returns whether it has changed since the last look; called often.

        Of the time between two looks at most a second counts as silence: what stops the one who looks, such as a file
        system that hangs, may well stop the other too.
        """
        now = time.monotonic()
        passed = min(now - self._last_look, BEAT_S) if self._last_look is not None else 0.0
        self._last_look = now
        said = read_object(self._path)
        if said is None or said == self.said:
            self.silence_s += passed
            return False
        self.said = said
        self.silence_s = 0.0
        return True


def read_object(path: Path) -> dict[str, Any] | None:
    """Returns the JSON object in a file; None when it is not there, or just being written."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
