"""Who takes part in a run: on several machines, or under a launcher outside, a run is started by several processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.config.schema import Launcher, RunConfig
from core.errors import ConfigError
from core.run_files.events import LOG_FOLDER

RUN_DIR_KEY = "hydra.run.dir="


@dataclass(frozen=True)
class Member:
    """One process that runs core.train for a run.

    Member 0 leads: it makes the run directory, freezes the config, shows the run and says how it ended. The others
    serve: they start and watch their ranks. What they have to tell each other lies in the run directory.

    Attributes:
        index: In [0, size).
        size: Members of the run; 1 on a single machine.
        ranks: The ranks that this member starts.
        is_external: Whether a launcher outside has started it as one rank; otherwise it stands for a machine.
    """

    index: int
    size: int
    ranks: range
    is_external: bool = False

    @property
    def leads(self) -> bool:
        """Whether this is member 0."""
        return self.index == 0

    @property
    def noun(self) -> str:
        """What a member is called where users read of it."""
        return "process" if self.is_external else "machine"

    def name(self, index: int | None = None) -> str:
        """Returns what a member, by default this one, is called where users read of it."""
        return f"{self.noun} {self.index if index is None else index}"

    def file(self, run_dir: Path, stem: str, suffix: str, index: int | None = None) -> Path:
        """Returns the file of that stem and suffix under logs/ of a member, by default this one."""
        index = self.index if index is None else index
        return run_dir / LOG_FOLDER / f"{stem}{index or ''}.{suffix}"


def machine_of(config: RunConfig) -> Member:
    """Returns the member that stands for this machine."""
    per_node, node_rank = config.cards_per_node, config.cluster.node_rank
    return Member(node_rank, config.nodes, range(node_rank * per_node, (node_rank + 1) * per_node))


def check_cluster(config: RunConfig, overrides: Sequence[str], is_sweep: bool) -> None:
    """Checks the keys by which several processes agree on one run.

    Args:
        config: The config as it was composed.
        overrides: The arguments of the command line.
        is_sweep: Whether this is a job of a multirun.

    Raises:
        ConfigError: One is missing, or would be without effect.
    """
    is_external = config.launcher is Launcher.external
    if config.cluster.rendezvous is not None and (is_external or config.nodes == 1):
        raise ConfigError(
            "'cluster.rendezvous' would be without effect"
            + (", since the launcher outside has its own." if is_external else " on a single machine."),
            received=config.cluster.rendezvous,
            remedy="Leave it out." if is_external else "Leave it out, or set nodes.",
        )
    if not is_external and config.nodes == 1:
        return
    what = "launcher=external" if is_external else f"nodes={config.nodes}"
    if is_sweep:
        raise ConfigError(
            f"A job of a sweep cannot have {what}: nothing would start it on the other machines.",
            allowed="launcher=local and nodes=1 in a multirun",
            remedy="Run each config by its own command.",
        )
    if not is_external and config.cluster.rendezvous is None:
        raise ConfigError(
            f"'cluster.rendezvous' is not set, which {what} needs.",
            allowed="HOST:PORT, the same on every machine: an address of machine 0 and a port that is free there",
            remedy="Give cluster.rendezvous=HOST:PORT and, on each machine, its own cluster.node_rank.",
        )
    given = [item.removeprefix(RUN_DIR_KEY) for item in overrides if item.startswith(RUN_DIR_KEY)]
    if not given or "${" in given[-1]:
        raise ConfigError(
            f"'hydra.run.dir' is not set, which {what} needs: its processes meet in the run directory."
            if not given
            else f"'hydra.run.dir' must be a plain path with {what}, or its processes would not find each other.",
            received=given[-1] if given else None,
            allowed="a folder on a file system that all machines share, the same for every process",
            remedy="Give hydra.run.dir=FOLDER on every machine.",
        )
