"""Who this process is when a launcher outside has started it: the variables of torchrun, and of Slurm's srun.

Source: torchrun's environment variables (torch.distributed.run, torch 2.13); srun(1) and sbatch(1), OUTPUT ENVIRONMENT
VARIABLES, Slurm 25.05.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from core.errors import ConfigError

PORTS = range(20000, 30000)  # below those that Linux hands out by itself (32768 and up)


def rank_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns torchrun's variables for this process, from torchrun's own or from srun's.

    Returns:
        RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_WORLD_SIZE (machines), MASTER_ADDR, MASTER_PORT.

    Raises:
        ConfigError: There are neither, or some of them are missing.
    """
    if "RANK" in environment:
        return _torchrun(environment)
    if "SLURM_PROCID" in environment:
        return _slurm(environment)
    raise ConfigError(
        "launcher=external finds no rank in the environment.",
        allowed="RANK and its kin, as torchrun sets them, or SLURM_PROCID and its kin, as srun does",
        remedy="Start the command with torchrun or srun, or use launcher=local.",
    )


def _torchrun(environment: Mapping[str, str]) -> dict[str, str]:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    variables = {name: _required(environment, name, "RANK") for name in names}
    local = int(environment.get("LOCAL_WORLD_SIZE", variables["WORLD_SIZE"]))
    machines = environment.get("GROUP_WORLD_SIZE", str(max(1, int(variables["WORLD_SIZE"]) // local)))
    return {**variables, "LOCAL_WORLD_SIZE": str(local), "GROUP_WORLD_SIZE": machines}


def _slurm(environment: Mapping[str, str]) -> dict[str, str]:
    names = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID", "WORLD_SIZE": "SLURM_NTASKS"}
    variables = {name: _required(environment, source, "SLURM_PROCID") for name, source in names.items()}
    if "SLURM_STEP_NUM_TASKS" in environment:  # a step may have fewer tasks than its job
        variables["WORLD_SIZE"] = environment["SLURM_STEP_NUM_TASKS"]
    machines = int(environment.get("SLURM_STEP_NUM_NODES") or environment.get("SLURM_NNODES") or 1)
    host = environment.get("MASTER_ADDR")
    if host is None:
        lists = ("SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST")
        nodes = next((environment[name] for name in lists if environment.get(name)), None)
        if nodes is None and machines > 1:
            _required(environment, lists[0], "SLURM_PROCID")
        host = first_host(nodes) if nodes and machines > 1 else "127.0.0.1"
    step = int(environment.get("SLURM_STEP_ID", "0") or 0)
    port = PORTS[(int(environment.get("SLURM_JOB_ID", "0")) * 8 + step) % len(PORTS)]
    return {
        **variables,
        "LOCAL_WORLD_SIZE": str(max(1, int(variables["WORLD_SIZE"]) // machines)),
        "GROUP_WORLD_SIZE": str(machines),
        "MASTER_ADDR": host,
        "MASTER_PORT": environment.get("MASTER_PORT") or str(port),
    }


def first_host(nodes: str) -> str:
    """Returns the first host of Slurm's list, such as "gpu[003-007,12],login1"."""
    match = re.match(r"([^,\[]+)(?:\[(\w+)[^\]]*\]([^,\[]*))?", nodes)
    if match is None:
        raise ConfigError("Slurm's list of hosts cannot be read.", received=nodes, remedy="Set MASTER_ADDR.")
    return "".join(part or "" for part in match.groups())


def _required(environment: Mapping[str, str], name: str, beside: str) -> str:
    if not environment.get(name):
        raise ConfigError(
            f"launcher=external finds {beside} in the environment, but no {name}.",
            remedy="Start the command with torchrun or srun, or set what they set.",
        )
    return environment[name]
