"""What torchrun and srun say of a rank."""

from __future__ import annotations

import pytest

from core.errors import ConfigError
from plugins.torch_npu_backend.network import interface_of, local_address
from plugins.torch_npu_backend.outside import PORTS, first_host, rank_variables

TASK = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "123456"}


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("gpu1", "gpu1"),
        ("gpu1,gpu2", "gpu1"),
        ("gpu[003-007,12],login1", "gpu003"),
        ("rack-a[1,3]-n", "rack-a1-n"),
        ("a,b[1-2]", "a"),
    ],
)
def test_the_first_host_of_slurms_list(nodes: str, host: str) -> None:
    assert first_host(nodes) == host


def test_sruns_variables_become_torchruns() -> None:
    variables = rank_variables({**TASK, "SLURM_NNODES": "2", "SLURM_STEP_NODELIST": "gpu[3-4]"})
    assert (variables["RANK"], variables["LOCAL_RANK"], variables["WORLD_SIZE"]) == ("5", "1", "8")
    assert (variables["LOCAL_WORLD_SIZE"], variables["GROUP_WORLD_SIZE"]) == ("4", "2")
    assert variables["MASTER_ADDR"] == "gpu3"
    assert int(variables["MASTER_PORT"]) in PORTS
    assert rank_variables({**TASK, "MASTER_ADDR": "head", "MASTER_PORT": "7"})["MASTER_ADDR"] == "head"
    assert rank_variables(TASK)["MASTER_ADDR"] == "127.0.0.1"


def test_the_steps_tasks_count_and_two_steps_of_a_job_get_two_ports() -> None:
    step = rank_variables({**TASK, "SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_ID": "1"})
    assert step["WORLD_SIZE"] == "6"
    assert step["MASTER_PORT"] != rank_variables(TASK)["MASTER_PORT"]


def test_torchruns_variables_win() -> None:
    torchrun = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    variables = rank_variables({**TASK, **torchrun, "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "2"})
    assert (variables["RANK"], variables["WORLD_SIZE"], variables["GROUP_WORLD_SIZE"]) == ("0", "2", "2")
    assert rank_variables(torchrun)["GROUP_WORLD_SIZE"] == "1"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "finds no rank"),
        ({"RANK": "0"}, "finds RANK in the environment, but no LOCAL_RANK"),
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, "finds SLURM_PROCID in the environment, but no SLURM_NTASKS"),
        ({**TASK, "SLURM_NNODES": "2"}, "but no SLURM_STEP_NODELIST"),
    ],
)
def test_what_is_missing_is_named(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rank_variables(environment)


def test_the_interface_is_the_one_that_leads_to_the_host() -> None:
    assert local_address("127.0.0.1", "k") == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None
    with pytest.raises(ConfigError, match=r"finds no way to 'no-such-host\.invalid'"):
        local_address("no-such-host.invalid", "k")
