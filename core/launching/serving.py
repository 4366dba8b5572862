"""The serving members' side of a run of several: join the one that leads, start one's ranks, end as the run ends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.config.assembly import assemble
from core.config.freeze import load_frozen
from core.config.schema import RunConfig
from core.errors import AnycardError, ConfigError, RankFailedError
from core.launching.beacon import Beacon, Sight, read_object
from core.launching.command import launch_command
from core.launching.gathering import BEACON, END_FILE, POLL_S, SILENCE_S, SUSPICION_S, TELL_S, comparable
from core.launching.member import Member
from core.launching.watch import Watch
from core.plugin_system import load_catalogue
from core.run_files.events import LOG_FOLDER


class RunEnd(Exception):
    """The run has ended, by the word of the member that leads."""

    def __init__(self, exit_code: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.text = text


def serve(config: RunConfig, run_dir: Path, member: Member) -> None:
    """Takes part in the run in `run_dir`, which another member leads, until it has ended.

    Raises:
        AnycardError: This member cannot take part, or the run ended with another exit code than 0, which the error has.
    """
    lead = member.name(0)
    service = Service(run_dir, member)
    service.join(config)
    try:
        _check_same(comparable(config), service.config, member)
        assembly = assemble(load_frozen(run_dir), load_catalogue(), run_dir)
        command = launch_command(assembly, run_dir, member)
    except BaseException as error:
        service.refuse(error)
        raise
    service.ready()
    if not member.is_external:
        print(f"{member.name()} of {member.size} serves {lead}, which shows the run in {run_dir}", flush=True)
    watch = Watch(run_dir, assembly.config.cards, member, on_tick=service.tick)
    try:
        watch.run(command)
        service.wait(2 * SUSPICION_S if watch.failures else SILENCE_S)
    except RunEnd as end:
        if end.exit_code:
            failed = RankFailedError(
                f"The run ended with exit code {end.exit_code}, as {lead} tells: {end.text.splitlines()[0]}"
                if end.text
                else f"The run ended with exit code {end.exit_code}; {lead} says why."
            )
            failed.exit_code = end.exit_code
            raise failed from None


class Service:
    """What a serving member says to the one that leads, and hears from it.

    Args:
        run_dir: The run directory, which need not exist yet.
        member: This member.
    """

    def __init__(self, run_dir: Path, member: Member) -> None:
        self._run_dir = run_dir
        self._member = member
        self._lead = Sight(member.file(run_dir, BEACON, "json", 0))
        self._beacon: Beacon | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The config of the member that leads, as it was composed."""
        config: dict[str, Any] = self._lead.said["config"]
        return config

    def join(self, config: RunConfig) -> None:
        """Waits for the leading member, and makes itself known.

        A file that is there already may be of an earlier life of the run: only one that changes counts.

        Raises:
            ConfigError: It did not come in time.
        """
        self._lead.look()
        begin = told = time.monotonic()
        lead = self._member.name(0)
        while not self._lead.look():
            now = time.monotonic()
            if now - begin > config.cluster.timeout_s:
                raise ConfigError(
                    f"{lead} did not appear in {self._run_dir} within {config.cluster.timeout_s:g} s.",
                    remedy="Start it there, and see that both have the same hydra.run.dir on a shared file system.",
                )
            if now - told > TELL_S:
                told = now
                print(f"{self._member.name()} waits for {lead} in {self._run_dir} ({now - begin:.0f} s)", flush=True)
            time.sleep(POLL_S)
        token = self._lead.said["token"]
        self._beacon = Beacon(self._member.file(self._run_dir, BEACON, "json"), token=token)

    def ready(self) -> None:
        """Says that this member is about to start its ranks."""
        assert self._beacon is not None
        self._beacon.say(is_ready=True)

    def refuse(self, error: BaseException) -> None:
        """Says that this member cannot take part."""
        assert self._beacon is not None
        self._beacon.say(error=error.describe() if isinstance(error, AnycardError) else repr(error))

    def tick(self, silence_s: float = SILENCE_S) -> None:
        """Gives a sign of life and listens; called often.

        Args:
            silence_s: For how long the leading member may give no sign of life.

        Raises:
            RunEnd: The run has ended.
            RankFailedError: The leading member gave no sign of life for long.
        """
        assert self._beacon is not None
        self._beacon.beat()
        self._lead.look()
        end = read_object(self._run_dir / LOG_FOLDER / END_FILE)
        if end is not None and end["token"] == self._lead.said["token"]:
            raise RunEnd(end["exit_code"], end["text"])
        if self._lead.silence_s > silence_s:
            raise RankFailedError(
                f"{self._member.name(0)} is gone: no sign of life for {self._lead.silence_s:.0f} s.",
                remedy="Look whether it runs and still has the run directory.",
            )

    def wait(self, silence_s: float) -> None:
        """Waits, after this member's ranks have ended, for the run to end; raises as `tick` does."""
        while True:
            self.tick(silence_s)
            time.sleep(POLL_S)


def _check_same(mine: Mapping[str, Any], theirs: Mapping[str, Any], member: Member) -> None:
    """Raises ConfigError when two configs are not the same, with the keys in which they differ."""
    here, there = _flat(mine), _flat(theirs)
    differing = [key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key)]
    if differing:
        raise ConfigError(
            f"{member.name()} and {member.name(0)} do not have the same config.",
            received="; ".join(f"{key} is {here.get(key)} here and {there.get(key)} there" for key in differing),
            allowed="a difference in cluster.node_rank alone",
            remedy="Give the same command on every machine.",
        )


def _flat(node: Any, prefix: str = "") -> dict[str, Any]:
    """Returns nested mappings as one, with dotted keys."""
    if not isinstance(node, Mapping):
        return {prefix: node}
    flat: dict[str, Any] = {}
    for name, item in node.items():
        flat |= _flat(item, f"{prefix}.{name}".strip("."))
    return flat
