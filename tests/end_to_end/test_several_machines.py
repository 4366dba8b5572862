"""Two machines, each with its own command, make one run in one shared directory."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.commands import entries
from tests.end_to_end.conftest import FEW_STEPS
from tests.end_to_end.hosts import ADDRESSES, Commands, two_hosts
from tests.end_to_end.runs import last_checkpoint, losses, prepare_probing, summary
from tests.end_to_end.test_failures import END_S, ranks_of, time_of_fault, wait_for_step

pytestmark = pytest.mark.slow
PORT = 29500


def arguments(*more: str, host: str = ADDRESSES[0], port: int = PORT) -> list[str]:
    threads = [] if any(argument.startswith("backend=") for argument in more) else ["backend.threads=1"]
    cluster = ["nodes=2", f"cluster.rendezvous={host}:{port}", "cluster.timeout_s=60"]
    return ["core.train", "device=cpu", "hydra.run.dir=run", *threads, *cluster, *more]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(("sharder", "cards"), [("data_parallel", 2), ("hybrid", 4)])
def test_two_hosts_train_as_one_does(tmp_path: Path, two_card_losses: list[float], sharder: str, cards: int) -> None:
    command = arguments(*FEW_STEPS, f"sharder={sharder}", f"cards={cards}")
    with two_hosts() as hosts, Commands(tmp_path, dict(os.environ)) as commands:
        second = commands.start(*command, "cluster.node_rank=1", prefix=hosts[1])
        first = commands.start(*command, prefix=hosts[0])
        out, err = first.communicate(timeout=240)
        second_out, second_err = second.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0), out + err + second_out + second_err
    assert losses(tmp_path / "run") == pytest.approx(two_card_losses, abs=1e-5)
    assert summary(tmp_path / "run")["cards"] == cards
    assert entries(tmp_path).count("run/summary.json") == 1
    assert f"{cards} ranks ready" in out
    assert "machine 1 of 2 serves machine 0" in second_out
    assert len(second_out.splitlines()) <= 2, "the second machine shows no progress"
    assert not ranks_of(tmp_path / "run")


def test_a_rank_killed_on_the_second_host_ends_both_commands(tmp_path: Path) -> None:
    fault = ("backend=probed", "backend.fault=kill", "backend.rank=1", "backend.step=12")
    command = arguments(*fault, "cards=2", "steps=5000", "eval.every_epochs=0")
    with two_hosts() as hosts, Commands(tmp_path, {**os.environ}) as commands:
        variables = prepare_probing()
        second = commands.start(*command, "cluster.node_rank=1", prefix=hosts[1], **variables)
        first = commands.start(*command, prefix=hosts[0], **variables)
        out, err = first.communicate(timeout=240)
        second_out, second_err = second.communicate(timeout=60)
    assert time.time() - time_of_fault(tmp_path / "run") < END_S
    assert (first.returncode, second.returncode) == (1, 1), out + err + second_out + second_err
    assert err.startswith("RankFailedError: rank 1 of 2 failed at step"), err
    assert "killed by SIGKILL" in err.splitlines()[0]
    assert "rank 1 of 2 failed at step" in second_err
    assert not ranks_of(tmp_path / "run")


def test_a_signal_to_either_command_stops_both_after_a_checkpoint(tmp_path: Path) -> None:
    fault = ("backend=probed", "backend.fault=slow")
    command = arguments(*fault, "cards=2", "steps=5000", "eval.every_epochs=0", host="127.0.0.1", port=free_port())
    with Commands(tmp_path, dict(os.environ)) as commands:
        variables = prepare_probing()
        second = commands.start(*command, "cluster.node_rank=1", **variables)
        first = commands.start(*command, **variables)
        wait_for_step(tmp_path / "run", 10)
        second.send_signal(signal.SIGINT)
        begin = time.monotonic()
        out, err = first.communicate(timeout=60)
        second_out, second_err = second.communicate(timeout=60)
        assert time.monotonic() - begin < END_S
    assert (first.returncode, second.returncode) == (130, 130), out + err + second_out + second_err
    assert "stopped by SIGINT" in err
    assert "stopped by SIGINT" in second_err
    assert last_checkpoint(tmp_path / "run").is_dir()
    assert not ranks_of(tmp_path / "run")


def test_machines_that_differ_in_a_key_are_told_which(tmp_path: Path) -> None:
    command = arguments("cards=2", "steps=5", host="127.0.0.1", port=free_port())
    with Commands(tmp_path, dict(os.environ)) as commands:
        second = commands.start(*command, "cluster.node_rank=1", "optimizer.lr=0.5")
        first = commands.start(*command)
        err, second_err = first.communicate(timeout=60)[1], second.communicate(timeout=60)[1]
    assert (first.returncode, second.returncode) == (2, 2), err + second_err
    assert "machine 1 and machine 0 do not have the same config" in second_err
    assert "optimizer.lr is 0.5 here and 0.001 there" in second_err
    assert "machine 1 cannot take part" in err
    assert "optimizer.lr" in err


@pytest.mark.parametrize(
    ("node_rank", "parts"),
    [
        (0, ("machine 1 did not join within 1 s", "cluster.node_rank=1")),
        (1, ("machine 0 did not appear in", "within 1 s")),
    ],
)
def test_a_machine_that_does_not_come_is_named(tmp_path: Path, node_rank: int, parts: tuple[str, ...]) -> None:
    command = arguments("cards=2", host="127.0.0.1", port=free_port())
    with Commands(tmp_path, dict(os.environ)) as commands:
        lone = commands.start(*command, f"cluster.node_rank={node_rank}", "cluster.timeout_s=1")
        err = lone.communicate(timeout=60)[1]
    assert lone.returncode == 2
    for part in parts:
        assert part in err
