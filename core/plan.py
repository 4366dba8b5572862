"""`python -m core.plan KEY=VALUE ...`: prints what a run with the same arguments would need; starts nothing."""

from __future__ import annotations

import sys

from rich.console import Console

from core.config.assembly import assemble
from core.config.compose import compose_run_config
from core.launching.command_line import run_command
from core.planning.report import plan_report
from core.plugin_system.catalogue import load_catalogue, warn_of_failures

USAGE = """python -m core.plan [KEY=VALUE ...]

Prints mesh, placements, bytes per card and bytes on the wire for a run with the same arguments as core.train takes.
Needs no framework and starts nothing."""


def main() -> int:
    """Runs the command line and returns its exit code."""
    return run_command(plan)


def plan() -> int:
    """Composes the config, lays the model over the cards and prints the report."""
    arguments = sys.argv[1:]
    if any(argument in ("-h", "--help") for argument in arguments):
        print(USAGE)
        return 0
    catalogue = load_catalogue()
    warn_of_failures(catalogue)
    assembly = assemble(compose_run_config(arguments), catalogue)
    Console(soft_wrap=False).print(plan_report(assembly, catalogue))
    return 0


if __name__ == "__main__":
    sys.exit(main())
