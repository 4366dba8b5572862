"""How ranks tell the parent what happens: lines of JSON appended to one file a rank under the run's logs/.

Files, not pipes or sockets, since they work alike under every launcher, whatever it does to a rank's streams, and stay
to be read after a crash.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

LOG_FOLDER = "logs"
STOP_FILE = ".stop"  # a parent makes it when the ranks are to save and end; holds the signal's number

STARTED = "started"  # pid
STAGE = "stage"  # text: what a rank is doing before its first step
READY = "ready"  # the first step comes next
PROGRESS = "progress"  # step, epoch, loss, accuracy, samples_per_s
EVALUATED = "evaluated"  # step, epoch, eval_loss, eval_accuracy, ...
METRICS = "metrics"  # step, loss, lr, samples_per_s: a line of metrics.jsonl
SAVED = "saved"  # step, path, best
NOTE = "note"  # text: something that a user should read
ERROR = "error"  # type, message, trace, step, exit_code, secondary
FINISHED = "finished"  # outcome: "complete" or "stopped"


def rank_log(run_dir: Path, rank: int) -> Path:
    """Returns the file that holds everything a rank prints."""
    return run_dir / LOG_FOLDER / f"rank{rank}.log"


def rank_events(run_dir: Path, rank: int) -> Path:
    """Returns the file that holds a rank's events."""
    return run_dir / LOG_FOLDER / f"rank{rank}.events.jsonl"


class EventWriter:
    """Appends events of one rank.

    Args:
        path: The file; its folder must exist. An older file is replaced.
        rank: The rank, which every event carries.
        is_shared: Whether other machines read the file, so that what does not come often must not wait in a cache.
    """

    def __init__(self, path: Path, rank: int, is_shared: bool = False) -> None:
        self._rank = rank
        self._is_shared = is_shared
        self._file = path.open("w", buffering=1)

    def write(self, kind: str, **fields: Any) -> None:
        """Writes one event with the time and the rank."""
        event = {"kind": kind, "rank": self._rank, "time": time.time(), **fields}
        self._file.write(json.dumps(event) + "\n")
        if self._is_shared and kind not in (PROGRESS, METRICS):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class EventReader:
    """Reads what was appended to a file of JSON lines since the last look; the file may not exist yet.

    The file is opened at each look: network file systems promise a reader what another machine has written when it
    opens the file, not later.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        """Returns the new whole lines, parsed."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines() if line]
