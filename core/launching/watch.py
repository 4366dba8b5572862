"""Starting the ranks' launcher, watching every rank, and ending all when one fails or the user says stop."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from core.contracts import LaunchCommand
from core.launching.command import EXITS
from core.launching.failure import Failure, failure_from_event, failure_from_exit
from core.launching.member import Member
from core.launching.parent_death import PARENT_VARIABLE
from core.launching.processes import belongs_to, is_alive
from core.run_files import events

POLL_S = 0.05
GRACE_S = 1.5  # after a first failure, for the others to say what they saw
ECHO_GRACE_S = 5.0  # the same with several members, when all that is known is that peers are gone
REST_S = 5.0  # with several members, between the end of the own launcher and the word of the last rank elsewhere
TERMINATE_S = 2.0  # between SIGTERM and SIGKILL
STOP_S = 8.0  # for ranks to reach a step's end and save, after SIGINT or SIGTERM
QUIET_DEATH_S = 1.0  # a rank's process may be gone this long before the launcher has told its exit code
LAUNCHER_LOG = ("launcher", "log")


class Watch:
    """One launch by one member; the one that leads watches the ranks of all.

    Args:
        run_dir: The run directory; its logs/ exists.
        world_size: Number of ranks.
        member: Who watches. A member's launcher writes the exit codes of its ranks to the member's file of exits.
        listeners: Each is called with every event of every rank, in order for each rank.
        on_tick: Called about twenty times a second; what it raises ends the launch.
    """

    def __init__(
        self,
        run_dir: Path,
        world_size: int,
        member: Member,
        listeners: Sequence[Callable[[dict[str, Any]], None]] = (),
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._run_dir = run_dir
        self._member = member
        self._listeners = listeners
        self._on_tick = on_tick
        self._ranks = range(world_size) if member.leads else member.ranks
        self._readers = {rank: events.EventReader(events.rank_events(run_dir, rank)) for rank in self._ranks}
        members = range(member.size) if member.leads else (member.index,)
        self._exits = [events.EventReader(member.file(run_dir, *EXITS, index)) for index in members]
        self._pids: dict[int, int] = {}
        self._steps: dict[int, int] = {}
        self._outcomes: dict[int, str] = {}
        self._gone_since: dict[int, float] = {}
        self._deadlines: dict[str, float] = {}
        self._signal: int | None = None
        self._signals = 0
        self._parent = os.getppid()
        self.failures: list[Failure] = []

    @property
    def outcomes(self) -> dict[int, str]:
        """How each rank that finished ended: "complete" or "stopped"."""
        return self._outcomes

    @property
    def stop_signal(self) -> int | None:
        """The signal by which the user asked to stop, here or at another member, if any."""
        return self._signal

    def run(self, command: LaunchCommand) -> int:
        """Runs the launcher to its end; afterwards none of its processes is left.

        Returns:
            The launcher's exit code.
        """
        environment = {**os.environ, **command.environment, PARENT_VARIABLE: str(os.getpid())}
        with (
            self._member.file(self._run_dir, *LAUNCHER_LOG).open("w") as log,
            self._stop_signals(),
            subprocess.Popen(
                command.argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                self._follow(process)
            finally:
                self._end(process)
                self._read()
        if self._member.leads:
            (self._run_dir / events.STOP_FILE).unlink(missing_ok=True)
        return process.returncode

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Returns when the launch has ended, or when it is time to end it."""
        while True:
            code = process.poll()
            if code is not None and self._member.is_external and self._is_missing(rank := self._member.ranks[0]):
                self._note_exit(rank, code)
            self._read()
            self._note_quiet_deaths()
            self._heed_stop()
            self._on_tick()
            if self._is_over(code is not None):
                return
            time.sleep(POLL_S)

    def _is_over(self, has_ended: bool) -> bool:
        """Returns whether there is nothing more to wait for; the first occasion for a deadline sets it."""
        now = time.monotonic()
        is_lone = self._member.size == 1 or not self._member.leads
        if has_ended and (is_lone or not any(map(self._is_missing, self._ranks))):
            return True
        if has_ended:
            self._deadlines.setdefault("rest", now + REST_S)
        if self.failures and all(failure.is_secondary for failure in self.failures) and not is_lone:
            self._deadlines.setdefault("echo", now + ECHO_GRACE_S)
        elif self.failures:
            self._deadlines.setdefault("failure", now + GRACE_S)
        if self._signal is not None:
            self._deadlines.setdefault("stop", now + (STOP_S if self._steps else 0.0))
        return self._signals > 1 or any(now > deadline for deadline in self._deadlines.values())

    def _heed_stop(self) -> None:
        """Passes a wish to stop on to the ranks, or takes note of one that another member has passed on.

        The death of a launcher outside counts as one: torchrun that is killed leaves its processes running.
        """
        if self._member.is_external and self._signal is None and os.getppid() != self._parent:
            self._signal = int(signal.SIGTERM)
        path = self._run_dir / events.STOP_FILE
        if self._signal is None and self._member.size > 1 and path.exists():
            text = path.read_text()
            self._signal = int(text) if text else None  # None: it is just being written
        elif self._signal is not None and "stop" not in self._deadlines:
            path.write_text(str(self._signal))

    def _read(self) -> None:
        # Ends first: what a rank said before its end is there to be read once its end is.
        ends = [end for exits in self._exits for end in exits.read()]
        for rank, reader in self._readers.items():
            for event in reader.read():
                self._take(rank, event)
        for end in ends:
            rank, code = end["rank"], end["exit_code"]
            if self._is_missing(rank):
                self.failures.append(failure_from_exit(rank, code, end["time"], self._steps.get(rank)))

    def _is_missing(self, rank: int) -> bool:
        """Returns whether a rank has neither finished nor failed, as far as is known."""
        return rank not in self._outcomes and not any(failure.rank == rank for failure in self.failures)

    def _take(self, rank: int, event: dict[str, Any]) -> None:
        match event["kind"]:
            case events.STARTED:
                self._pids[rank] = event["pid"]
            case events.PROGRESS:
                self._steps[rank] = event["step"]
            case events.ERROR:
                self.failures.append(failure_from_event(event))
            case events.FINISHED:
                self._outcomes[rank] = event["outcome"]
        for listener in self._listeners:
            listener(event)

    def _note_quiet_deaths(self) -> None:
        """Notes ranks whose process is gone though they neither finished nor failed, for launchers that say nothing."""
        for rank in self._member.ranks:
            if rank not in self._pids or not self._is_missing(rank):
                continue
            if is_alive(self._pids[rank]):
                self._gone_since.pop(rank, None)
            elif time.monotonic() - self._gone_since.setdefault(rank, time.monotonic()) > QUIET_DEATH_S:
                self._note_exit(rank, None)
                self._read()

    def _note_exit(self, rank: int, code: int | None) -> None:
        """Writes how a rank of this member ended, for whoever watches it."""
        with self._member.file(self._run_dir, *EXITS).open("a") as file:
            file.write(json.dumps({"rank": rank, "exit_code": code, "time": time.time()}) + "\n")

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends the launcher and every rank that is left."""
        with contextlib.suppress(ProcessLookupError):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(TERMINATE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for pid in (self._pids[rank] for rank in self._member.ranks if rank in self._pids):
            if is_alive(pid) and belongs_to(pid, self._run_dir):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def _stop_signals(self) -> Iterator[None]:
        """Takes SIGINT and SIGTERM as a wish to stop, where this thread may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            self._signal = number
            self._signals += 1

        previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
