"""Starting the ranks' launcher, watching every rank, and ending all when one fails or the user says stop."""

from __future__ import annotations

import contextlib
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
from core.launching.failure import Failure, failure_from_event, failure_from_exit
from core.launching.parent_death import PARENT_VARIABLE
from core.run_files import events

POLL_S = 0.05
GRACE_S = 1.5  # after a first failure, for the others to say what they saw
TERMINATE_S = 2.0  # between SIGTERM and SIGKILL
STOP_S = 8.0  # for ranks to reach a step's end and save, after SIGINT or SIGTERM
QUIET_DEATH_S = 1.0  # a rank's process may be gone this long before the launcher has told its exit code
LAUNCHER_LOG = "launcher.log"


class Watch:
    """One launch.

    Args:
        run_dir: The run directory; its logs/ exists.
        world_size: Number of ranks.
        exits: The file to which the launcher writes ranks' exit codes.
        listeners: Each is called with every event of every rank, in order for each rank.
        on_tick: Called about twenty times a second.
    """

    def __init__(
        self,
        run_dir: Path,
        world_size: int,
        exits: Path,
        listeners: Sequence[Callable[[dict[str, Any]], None]],
        on_tick: Callable[[], None],
    ) -> None:
        self._run_dir = run_dir
        self._listeners = listeners
        self._on_tick = on_tick
        self._readers = [events.EventReader(events.rank_events(run_dir, rank)) for rank in range(world_size)]
        self._exits = events.EventReader(exits)
        self._pids: dict[int, int] = {}
        self._steps: dict[int, int] = {}
        self._outcomes: dict[int, str] = {}
        self._gone_since: dict[int, float] = {}
        self._signal: int | None = None
        self._signals = 0
        self.failures: list[Failure] = []

    @property
    def outcomes(self) -> dict[int, str]:
        """How each rank that finished ended: "complete" or "stopped"."""
        return self._outcomes

    @property
    def stop_signal(self) -> int | None:
        """The signal by which the user asked to stop, if any."""
        return self._signal

    def run(self, command: LaunchCommand) -> int:
        """Runs the launcher to its end; afterwards none of its processes is left.

        Returns:
            The launcher's exit code.
        """
        environment = {**os.environ, **command.environment, PARENT_VARIABLE: str(os.getpid())}
        with (
            (self._run_dir / events.LOG_FOLDER / LAUNCHER_LOG).open("w") as log,
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
        for reader in (*self._readers, self._exits):
            reader.close()
        (self._run_dir / events.STOP_FILE).unlink(missing_ok=True)
        return process.returncode

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Returns when the launcher has ended, or when it is time to end it."""
        deadline: float | None = None
        while process.poll() is None:
            self._read()
            self._note_quiet_deaths()
            self._on_tick()
            now = time.monotonic()
            if self.failures and deadline is None:
                deadline = now + GRACE_S
            if self._signal is not None and deadline is None:
                (self._run_dir / events.STOP_FILE).touch()
                deadline = now + (STOP_S if self._steps else 0.0)
            if self._signals > 1 or (deadline is not None and now > deadline):
                return
            time.sleep(POLL_S)
        self._read()

    def _read(self) -> None:
        for rank, reader in enumerate(self._readers):
            for event in reader.read():
                self._take(rank, event)
        for exit_ in self._exits.read():
            rank, code = exit_["rank"], exit_["exit_code"]
            if not any(failure.rank == rank for failure in self.failures) and rank not in self._outcomes:
                self.failures.append(failure_from_exit(rank, code, exit_["time"], self._steps.get(rank)))

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
        for rank, pid in self._pids.items():
            if rank in self._outcomes or any(failure.rank == rank for failure in self.failures):
                continue
            if is_alive(pid):
                self._gone_since.pop(rank, None)
            elif time.monotonic() - self._gone_since.setdefault(rank, time.monotonic()) > QUIET_DEATH_S:
                self.failures.append(failure_from_exit(rank, None, time.time(), self._steps.get(rank)))

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
        for pid in self._pids.values():
            if is_alive(pid) and _belongs_to(pid, self._run_dir):
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


def is_alive(pid: int) -> bool:
    """Returns whether a process runs; one that is dead but not yet reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path("/proc").is_dir()
    return state not in ("Z", "X")


def _belongs_to(pid: int, run_dir: Path) -> bool:
    """Returns whether a process is a rank of this run, not another that got its number."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc").is_dir()
    return str(run_dir).encode() in arguments
