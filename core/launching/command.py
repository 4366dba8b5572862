"""The command that starts a member's ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from core.config.assembly import Assembly
from core.contracts import LaunchCommand, LaunchJob
from core.launching.member import Member

EXITS = ("exits", "jsonl")
WORKER_MODULE = "core.worker"


def launch_command(assembly: Assembly, run_dir: Path, member: Member) -> LaunchCommand:
    """Returns what the backend starts for a member, with what the communicator wants set.

    Raises:
        AnycardError: The backend or the communicator cannot do as the config says.
    """
    config = assembly.config
    job = LaunchJob(
        run_dir,
        config.cards_per_node,
        WORKER_MODULE,
        member.file(run_dir, *EXITS),
        nodes=config.nodes,
        node_rank=0 if member.is_external else member.index,
        rendezvous=config.cluster.rendezvous,
        is_external=member.is_external,
    )
    command = assembly.backend.launch_command(job)
    communicator = assembly.communicator.environment(config.deterministic, command.peer)
    return replace(command, environment={**communicator, **command.environment})
