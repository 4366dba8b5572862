"""Two hosts on one machine: network namespaces that a pair of virtual Ethernet devices joins."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import ROOT

ADDRESSES = ("10.203.7.1", "10.203.7.2")
PREFIX = 24
TOOLS = ("ip", "unshare", "nsenter")


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[list[str], list[str]]]:
    """Yields, for each host, what to put before a command so that it runs there.

    The namespaces have no name: they live as long as a process sleeps in each, so nothing is left of them.
    """
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"network namespaces need {', '.join(missing)} (iproute2, util-linux)")
    with contextlib.ExitStack() as stack:
        sleepers = []
        for _ in ADDRESSES:
            # It says when it is inside; before that its number would lead to this machine's own network.
            process = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "echo inside; exec sleep 600"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stack.callback(_end, process)
            assert process.stdout is not None
            if process.stdout.readline() != "inside\n":
                pytest.skip("this user may not make a network namespace")
            sleepers.append(process)
        first, second = (str(process.pid) for process in sleepers)
        pair = ["ip", "link", "add", "card0", "netns", first, "type", "veth", "peer", "name", "card0", "netns", second]
        if subprocess.run(pair, capture_output=True).returncode:
            pytest.skip("this kernel or user cannot make a pair of virtual Ethernet devices")
        prefixes = tuple(["nsenter", "--target", pid, "--net"] for pid in (first, second))
        for prefix, address in zip(prefixes, ADDRESSES, strict=True):
            for command in (
                ["ip", "link", "set", "lo", "up"],
                ["ip", "address", "add", f"{address}/{PREFIX}", "dev", "card0"],
                ["ip", "link", "set", "card0", "up"],
            ):
                subprocess.run([*prefix, *command], check=True)
        yield prefixes


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


class Commands:
    """A context for commands that run side by side; those that are left at its end are killed.

    Args:
        cwd: Where they run.
        environment: Their variables.
    """

    def __init__(self, cwd: Path, environment: dict[str, str]) -> None:
        self._cwd = cwd
        self._environment = environment
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, *arguments: str, prefix: list[str] | None = None, **variables: str) -> subprocess.Popen[str]:
        """Starts `python -m ARGUMENTS`."""
        process = subprocess.Popen(
            [*(prefix or []), sys.executable, "-m", *arguments],
            cwd=self._cwd,
            env={**self._environment, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process
