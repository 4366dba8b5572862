"""A run whose ranks a launcher outside has started (torchrun, srun): each such process comes in here, before Hydra.

Hydra's application is left out, since in every process it would make a folder. Each process composes the same config,
learns from the backend which rank it was started as, and starts that rank's worker, as a machine's parent does with the
machine's ranks; so signals, failures and checkpoints go the same way. Rank 0's process leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser

from core.config.assembly import build_plugged
from core.config.compose import compose_run_config
from core.config.schema import Launcher
from core.contracts import Backend
from core.errors import ConfigError
from core.launching.member import RUN_DIR_KEY, Member, check_cluster
from core.launching.run import run
from core.launching.run_directory import claim
from core.launching.serving import serve
from core.plugin_system import load_catalogue

MARK = f"launcher={Launcher.external.value}"


def is_external(arguments: Sequence[str]) -> bool:
    """Returns whether a command line asks to be one rank among those that were started outside."""
    return MARK in arguments and not any(argument.startswith("-") for argument in arguments)


def run_external(arguments: Sequence[str]) -> None:
    """Runs one rank of a run that was started outside, to its end.

    Raises:
        AnycardError: The config cannot be run, or a rank failed.
        RunStopped: SIGINT or SIGTERM came.
    """
    config = compose_run_config(arguments)
    check_cluster(config, arguments, is_sweep=False)
    backend: Backend = build_plugged(load_catalogue(), "backend", config.backend)
    rank = backend.read_rank(config.device.value)
    for key, received, started in (("cards", config.cards, rank.world_size), ("nodes", config.nodes, rank.nodes)):
        if received != started and (key, received) != ("nodes", 1):
            raise ConfigError(
                f"'{key}' is not what the launcher outside has started.",
                received=f"{key}={received}",
                allowed=f"{key}={started}",
                remedy=f"Give {key}={started}, or start as many processes as there are cards.",
            )
    config = replace(config, nodes=rank.nodes)
    member = Member(rank.rank, rank.world_size, range(rank.rank, rank.rank + 1), is_external=True)
    run_dir = _run_dir(arguments)
    if not member.leads:
        return serve(config, run_dir, member)
    with claim(run_dir, is_explicit=True, resumes=config.resume == "auto"):
        run(config, run_dir, is_alone=False, member=member)
    return None


def _run_dir(arguments: Sequence[str]) -> Path:
    """Returns the folder that the last hydra.run.dir=FOLDER of the arguments names."""
    given = [argument for argument in arguments if argument.startswith(RUN_DIR_KEY)][-1]
    return Path(str(OverridesParser.create().parse_override(given).value())).absolute()
