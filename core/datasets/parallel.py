"""Work on equal chunks in several processes, with a sign of life on standard error."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.errors import ConfigError, DataError

Task = TypeVar("Task")
Result = TypeVar("Result")


def num_processes(workers: int) -> int:
    """Returns how many processes `data.workers` means; 0 means one a core that this process may use."""
    return workers or len(os.sched_getaffinity(0))


def check_workers(workers: int) -> None:
    """Raises ConfigError if `data.workers` is negative."""
    if workers < 0:
        raise ConfigError("'data.workers' is out of range.", received=workers, allowed="at least 0; 0: all cores")


def run_chunks(
    what: str, function: Callable[[Task], Result], tasks: Sequence[Task], sizes: Sequence[int], workers: int
) -> list[Result]:
    """Returns `function` of every task, in order, computed by fresh processes; by this one if `workers` is 1.

    Args:
        what: What is being done, for the line or bar on standard error.
        function: A module's own function, so that another process finds it; runs in a process that inherits nothing.
        tasks: What to call it with.
        sizes: How much of the whole each task is, for the bar.
        workers: Processes.

    Raises:
        DataError: A process was ended from outside; or the function raised it.
    """
    results = []
    with _progress(what, sum(sizes)) as advance:
        for size, result in zip(sizes, _results(function, tasks, min(workers, len(tasks))), strict=True):
            results.append(result)
            advance(size)
    return results


def _results(function: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    if workers <= 1:
        yield from map(function, tasks)
        return
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield from pool.map(function, tasks)
    except BrokenProcessPool:
        raise DataError(
            "A process that prepared data was ended from outside.",
            remedy="Perhaps memory ran out; try data.workers=1.",
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields what is to be told of every step; shows a bar on a terminal, elsewhere a line at both ends."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda size: progress.advance(task, size)
        return
    begin = time.monotonic()
    print(f"{what}: {total:,}", file=sys.stderr, flush=True)
    yield lambda size: None
    print(f"{what}: done in {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
