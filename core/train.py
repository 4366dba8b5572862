"""`python -m core.train KEY=VALUE ...`: composes a run with Hydra, checks it, runs it, says where everything lies."""

from __future__ import annotations

import contextlib
import sys

import hydra

from core.config.compose import CONFIG_NAME, VERSION_BASE
from core.config.search_path import CONF, register
from core.launching.command_line import run_command
from core.launching.external import is_external, run_external
from core.launching.job import JobFailed, run_job
from core.launching.sweep import SweepReport
from core.plugin_system.catalogue import load_catalogue, warn_of_failures


def main() -> int:
    """Runs the command line and returns its exit code."""
    return run_command(train)


def train() -> int:
    """Hands the command line to Hydra, which calls `run_job` once, or once a job of a multirun.

    Where a launcher outside has started one process a rank, Hydra's application, which makes folders, stays out.
    """
    warn_of_failures(load_catalogue())
    register()
    if is_external(sys.argv[1:]):
        run_external(sys.argv[1:])
        return 0
    application = hydra.main(version_base=VERSION_BASE, config_path=str(CONF), config_name=CONFIG_NAME)(run_job)
    with contextlib.suppress(JobFailed):  # told when it happened, and told again by the table
        application()
    return 1 if SweepReport.print_table() else 0


if __name__ == "__main__":
    sys.exit(main())
