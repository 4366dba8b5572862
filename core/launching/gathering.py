"""The leading member's side of a run of several: it waits for the others, sees that they live, says how it ended."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from core.config.freeze import plain_config
from core.config.schema import RunConfig
from core.errors import AnycardError, ConfigError, RankFailedError
from core.launching.beacon import Beacon, Sight
from core.launching.member import Member
from core.run_files.events import LOG_FOLDER

BEACON, END_FILE = "member", "end.json"
SILENCE_S = 15.0  # after which a member is taken for dead
SUSPICION_S = 3.0  # the same, when a rank has just lost its peers; ending a launcher takes up to 2 s without a beat
TELL_S = 10.0  # between lines that say who is waited for
POLL_S = 0.05


class Gathering:
    """A context for the whole life of a run; does nothing where there is one member.

    Args:
        run_dir: The run directory, in which the config is frozen.
        member: This member, which leads.
        config: The config as it was composed, which the others must have too.
    """

    def __init__(self, run_dir: Path, member: Member, config: RunConfig) -> None:
        self._run_dir = run_dir
        self._member = member
        self._config = config
        self._token = secrets.token_hex(8)  # by which what an earlier life of the run left is known
        self._sights = {
            index: Sight(member.file(run_dir, BEACON, "json", index)) for index in range(1, self._member.size)
        }
        self._beacon: Beacon | None = None

    def __enter__(self) -> Gathering:
        if self._sights:
            self._beacon = Beacon(
                self._member.file(self._run_dir, BEACON, "json"),
                token=self._token,
                config=comparable(self._config),
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sights:
            end = {"token": self._token, "exit_code": exit_code_of(error), "text": str(error or "")}
            (self._run_dir / LOG_FOLDER / END_FILE).write_text(json.dumps(end))

    def wait(self, say: Callable[[str], None]) -> None:
        """Returns when all members are there and fit.

        Raises:
            ConfigError: One does not, or did not come in time.
        """
        begin = told = time.monotonic()
        while missing := self._not_ready():
            now = time.monotonic()
            names = ", ".join(self._member.name(index) for index in missing)
            if now - begin > self._config.cluster.timeout_s:
                raise ConfigError(
                    f"{names} did not join within {self._config.cluster.timeout_s:g} s.",
                    remedy=self._advice(missing[0]),
                )
            if now - told > TELL_S:
                told = now
                say(f"waiting for {names} ({now - begin:.0f} s)")
            time.sleep(POLL_S)
            self._beat()

    def tick(self) -> None:
        """Gives a sign of life and looks for those of the others; called often.

        Raises:
            RankFailedError: There was none for long.
        """
        self._beat()
        for sight in self._sights.values():
            sight.look()
        if error := self.loss(SILENCE_S):
            raise error

    def loss(self, silence_s: float = SUSPICION_S) -> RankFailedError | None:
        """Returns the error for a member that has been silent for so long, if there is one."""
        for index, sight in self._sights.items():
            if sight.silence_s > silence_s:
                return RankFailedError(
                    f"{self._member.name(index)} of {self._member.size} is gone: no sign of life for "
                    f"{sight.silence_s:.0f} s.",
                    remedy="Look whether it runs and still has the run directory.",
                )
        return None

    def _not_ready(self) -> list[int]:
        missing = []
        for index, sight in self._sights.items():
            sight.look()
            said = sight.said if sight.said.get("token") == self._token else {}
            if error := said.get("error"):
                raise ConfigError(f"{self._member.name(index)} cannot take part: {error}")
            if not said.get("is_ready"):
                missing.append(index)
        return missing

    def _beat(self) -> None:
        if self._beacon is not None:
            self._beacon.beat()

    def _advice(self, index: int) -> str:
        if self._member.is_external:
            return "Look whether the launcher started it, and whether it sees the same run directory."
        return f"Give the same command there with cluster.node_rank={index}; all machines must share hydra.run.dir."


def exit_code_of(error: BaseException | None) -> int:
    """Returns the code with which the command line ends after an error."""
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, AnycardError):
        return error.exit_code
    number = getattr(error, "signal", None)
    return 1 if number is None else 128 + int(number)


def comparable(config: RunConfig) -> dict[str, Any]:
    """Returns the keys of a config in which members must not differ."""
    plain = plain_config(config)
    return {**plain, "cluster": {key: value for key, value in plain["cluster"].items() if key != "node_rank"}}
