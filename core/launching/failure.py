"""Which rank failed first, and how that is told."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import RankFailedError
from core.run_files.events import rank_log

TRACE_LINES = 6


@dataclass(frozen=True)
class Failure:
    """One rank's end.

    Attributes:
        rank: Which.
        time: When it was noticed, seconds since the epoch.
        is_secondary: Whether it only reports that another rank is gone.
        headline: What happened, in one line.
        trace: The last lines of its trace; empty for a user's mistake and for a death without a word.
        exit_code: What the command should exit with: 2 for a user's mistake, 1 otherwise.
        step: The step it was at, None before the first.
    """

    rank: int
    time: float
    is_secondary: bool
    headline: str
    trace: tuple[str, ...] = ()
    exit_code: int = 1
    step: int | None = None


def failure_from_event(event: dict[str, Any]) -> Failure:
    """Returns the failure that a rank reported itself."""
    is_users = event["exit_code"] == 2
    lines = event["trace"].rstrip().splitlines()
    return Failure(
        rank=event["rank"],
        time=event["time"],
        is_secondary=event["secondary"],
        headline=event["message"] if is_users else f"{event['type']}: {event['message']}",
        trace=() if is_users else tuple(lines[-TRACE_LINES:]),
        exit_code=event["exit_code"],
        step=event["step"],
    )


def failure_from_exit(rank: int, exit_code: int | None, time: float, step: int | None) -> Failure:
    """Returns the failure of a rank that ended without a word; exit code None when nobody saw it.

    A launcher ends the others by SIGTERM when one rank fails, and a library's thread may abort when its peers are gone,
    so such ends are taken for echoes; where there is nothing else, the earliest echo is shown.
    """
    if exit_code is None:
        headline = "the process is gone without a word (killed, or out of memory)"
    elif exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = "; the system kills so when memory runs out" if name == "SIGKILL" else ""
        headline = f"killed by {name}{hint}"
    else:
        headline = f"exited with code {exit_code} before the run was complete"
    is_echo = exit_code in (-signal.SIGTERM, -signal.SIGABRT)
    return Failure(rank=rank, time=time, is_secondary=is_echo, headline=headline, step=step)


def first_failure(failures: list[Failure]) -> Failure:
    """Returns the failure to show: the earliest of those that are not mere echoes of another."""
    return min(failures, key=lambda failure: (failure.is_secondary, failure.time))


def error_of(failure: Failure, run_dir: Path, world_size: int) -> RankFailedError:
    """Returns the error that the command line prints."""
    where = "before its first step" if failure.step is None else f"at step {failure.step}"
    text = f"rank {failure.rank} of {world_size} failed {where}: {failure.headline}"
    if failure.trace:
        text += "\n" + "\n".join(f"    {line}" for line in failure.trace)
    error = RankFailedError(text, remedy=f"Its log: {rank_log(run_dir, failure.rank)}", rank=None)
    error.exit_code = failure.exit_code
    return error
