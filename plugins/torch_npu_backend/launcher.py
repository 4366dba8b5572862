"""Starts the ranks of one machine with torchrun's agent; run as a process of its own by the parent.

python -m plugins.torch_npu_backend.launcher RUN_DIR REQUEST, where the request is a LaunchRequest as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from core.launching.parent_death import PARENT_VARIABLE, die_with_parent

SHUTDOWN_S = 3


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """What to start.

    Attributes:
        cards: Ranks on this machine.
        worker: The module that each runs.
        exits: The file to which exit codes other than 0 are appended.
        nodes: Machines.
        node_rank: Which of them this is.
        endpoint: HOST:PORT where the agents of all machines meet; with one machine port 0 takes a free one.
        address: This machine's own, as the others reach it.
    """

    cards: int
    worker: str
    exits: str
    nodes: int
    node_rank: int
    endpoint: str
    address: str


def main(run_dir: str, request: LaunchRequest) -> int:
    """Runs the ranks to their end.

    On several machines the rendezvous is torchrun's static one: its c10d numbers machines by their names, so that rank
    0 could lie on any.

    Returns:
        0 when all ranks exited with 0, 1 otherwise; each other exit code is appended to the file of exits.
    """
    die_with_parent()
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, launch_agent

    is_lone = request.nodes == 1
    config = LaunchConfig(
        min_nodes=request.nodes,
        max_nodes=request.nodes,
        nproc_per_node=request.cards,
        run_id=Path(run_dir).name,
        rdzv_backend="c10d" if is_lone else "static",
        rdzv_endpoint=request.endpoint,
        rdzv_configs={} if is_lone else {"rank": request.node_rank},
        local_addr=request.address,
        max_restarts=0,
        monitor_interval=0.1,
        shutdown_timeout=SHUTDOWN_S,
    )
    try:
        launch_agent(config, sys.executable, ["-u", "-m", request.worker, run_dir])
    except ChildFailedError as error:
        with Path(request.exits).open("a") as file:
            for rank, failure in error.failures.items():
                record = {"rank": rank, "exit_code": failure.exitcode, "time": failure.timestamp or time.time()}
                file.write(json.dumps(record) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], LaunchRequest(**json.loads(sys.argv[2]))))
