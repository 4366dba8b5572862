"""Whether a process still runs, and whether it is one of ours."""

from __future__ import annotations

import os
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Returns whether a process runs; one that is dead but not yet reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path("/proc").is_dir()
    return state not in ("Z", "X")


def belongs_to(pid: int, run_dir: Path) -> bool:
    """Returns whether a process is a rank of this run, not another that got its number."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc").is_dir()
    return str(run_dir).encode() in arguments
