"""Cutting a run into windows: the steps between two moments at which the core looks at a number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

TARGET_S = 0.5  # a window is no longer than about this, so that progress shows and a wish to stop is heard


@dataclass(frozen=True)
class WindowSpan:
    """Consecutive steps of one epoch.

    Attributes:
        epoch: From 0.
        first: First step within the epoch.
        num_steps: How many.
        end: Global step after the last of them.
    """

    epoch: int
    first: int
    num_steps: int
    end: int


class WindowPlan:
    """Where windows end: with an epoch, at a checkpoint, at the end of the run, and before they get too long.

    The longest window follows from the measured time of a step. All ranks must cut alike, so they give `measured` the
    same numbers in the same order.

    Args:
        steps_per_epoch: Steps in each epoch.
        total_steps: Steps in the run.
        checkpoint_every: Steps between checkpoints, 0 for none.
        most_steps: The most steps whose samples fit into the loader's memory.
    """

    def __init__(self, steps_per_epoch: int, total_steps: int, checkpoint_every: int, most_steps: int) -> None:
        self._steps_per_epoch = steps_per_epoch
        self._total_steps = total_steps
        self._checkpoint_every = checkpoint_every
        self._most_steps = most_steps
        self._longest = 1

    def measured(self, num_steps: int, seconds: float) -> None:
        """Takes how long a window took; it may at most double the next ones."""
        fitting = int(TARGET_S * num_steps / seconds) if seconds > 0 else self._most_steps
        self._longest = max(1, min(fitting, 2 * self._longest, self._most_steps))

    def spans(self, first_step: int) -> Iterator[WindowSpan]:
        """Yields the windows of the run from global step `first_step` on, each cut when it is asked for."""
        step = first_step
        while step < self._total_steps:
            epoch, within = divmod(step, self._steps_per_epoch)
            ends = [step + self._longest, (epoch + 1) * self._steps_per_epoch, self._total_steps]
            if self._checkpoint_every:
                ends.append((step // self._checkpoint_every + 1) * self._checkpoint_every)
            num_steps = min(ends) - step
            step += num_steps
            yield WindowSpan(epoch, within, num_steps, step)


class Stopwatch:
    """Seconds between two looks.

    Args:
        clock: Where seconds come from.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._begin = clock()

    def restart(self) -> float:
        """Returns the seconds since the last restart, and starts anew."""
        now = self._clock()
        seconds, self._begin = now - self._begin, now
        return seconds
