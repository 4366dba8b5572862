"""`python -m core.plan KEY=VALUE ...`: prints what a run with the same arguments would need; starts nothing."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rich.console import Console

from core.config.assembly import assemble
from core.launching.command_line import run_command
from core.planning.arguments import parse_arguments
from core.planning.report import plan_report
from core.planning.scaling import predict_scaling, scaling_report
from core.plugin_system.catalogue import load_catalogue, warn_of_failures

USAGE = """python -m core.plan [KEY=VALUE ...] [hardware=NAME [hardware.KEY=VALUE ...]]

Prints mesh, placements, bytes per card and bytes on the wire for a run with the same arguments as core.train takes.
With hardware=NAME, of conf/hardware/, it predicts the time of a step; cards=1,8,64 then compares numbers of cards.
Needs no framework and starts nothing, but for model=native, whose class a process imports and describes."""


def main() -> int:
    """Runs the command line and returns its exit code."""
    return run_command(plan)


def plan() -> int:
    """Composes the config, lays the model over the cards and prints the report, or how a run would scale."""
    arguments = sys.argv[1:]
    if any(argument in ("-h", "--help") for argument in arguments):
        print(USAGE)
        return 0
    catalogue = load_catalogue()
    warn_of_failures(catalogue)
    asked = parse_arguments(arguments)
    console = Console(soft_wrap=False)
    with tempfile.TemporaryDirectory(prefix="anycard-") as folder:
        if len(asked.cards) == 1:
            console.print(plan_report(assemble(asked.config, catalogue, Path(folder)), catalogue))
        if asked.hardware is None:
            return 0
        scaling = predict_scaling(asked.config, asked.cards, catalogue, asked.hardware, Path(folder))
    console.print(scaling_report(asked.config, scaling, asked.hardware))
    return 0


if __name__ == "__main__":
    sys.exit(main())
