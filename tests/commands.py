"""Running anycard's commands in processes of their own, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_module(
    *arguments: str,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
    timeout_s: float = 240,
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m ARGUMENTS` and returns what it printed; PYTHONPATH leads to this checkout."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **(environment or {})}
    return subprocess.run(
        [python, "-m", *arguments], cwd=cwd, env=variables, capture_output=True, text=True, timeout=timeout_s
    )


def entries(folder: Path) -> list[str]:
    """Returns everything that lies below a folder, as relative paths."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
