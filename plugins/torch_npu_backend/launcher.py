"""Starts the ranks of one machine with torchrun's agent; run as a process of its own by the parent.

python -m plugins.torch_npu_backend.launcher RUN_DIR CARDS WORKER EXITS PORT
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from core.launching.parent_death import PARENT_VARIABLE, die_with_parent

SHUTDOWN_S = 3


def main(run_dir: str, cards: str, worker: str, exits: str, port: str) -> int:
    """Runs the ranks to their end.

    Returns:
        0 when all ranks exited with 0, 1 otherwise; each other exit code is appended to the file `exits`.
    """
    die_with_parent()
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, launch_agent

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(cards),
        run_id=Path(run_dir).name,
        rdzv_backend="c10d",
        rdzv_endpoint=f"127.0.0.1:{port}",
        local_addr="127.0.0.1",
        max_restarts=0,
        monitor_interval=0.1,
        shutdown_timeout=SHUTDOWN_S,
    )
    try:
        launch_agent(config, sys.executable, ["-u", "-m", worker, run_dir])
    except ChildFailedError as error:
        with Path(exits).open("a") as file:
            for rank, failure in error.failures.items():
                record = {"rank": rank, "exit_code": failure.exitcode, "time": failure.timestamp or time.time()}
                file.write(json.dumps(record) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
