"""`python -m core.worker RUN_DIR`: one rank; started by a backend's launcher, never by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from core.launching.parent_death import die_with_parent


def main(run_dir: str) -> NoReturn:
    """Runs one rank to its end, and with it this process."""
    die_with_parent()
    from core.training.rank import run_rank

    run_rank(Path(run_dir))


if __name__ == "__main__":
    main(*sys.argv[1:])
