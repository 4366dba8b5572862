"""Every error that anycard raises on a user's account.

An error says, in this order: what is wrong, what was received, what is allowed, what to do. The parts stay readable
as attributes. Each class is also the matching builtin, so `except LookupError` works for callers who know nothing
of anycard. The command line prints `str(error)` without a stack trace and exits with `error.exit_code`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AnycardError(Exception):
    """Base of all errors that a user can mend.

    Args:
        problem: One sentence that says what is wrong, ending in a full stop.
        received: What was given, when `problem` does not say it already.
        allowed: What would have been accepted.
        remedy: One sentence that says what to do.
        rank: The rank on which it happened, None for the parent process.
    """

    exit_code = 2

    def __init__(
        self,
        problem: str,
        *,
        received: object = None,
        allowed: object = None,
        remedy: str | None = None,
        rank: int | None = None,
    ) -> None:
        self.problem = problem
        self.received = received
        self.allowed = allowed
        self.remedy = remedy
        self.rank = rank
        super().__init__(problem)

    def __str__(self) -> str:
        text = self.problem
        if self.received is not None:
            text += f" Received: {self.received}."
        if self.allowed is not None:
            text += f" Allowed: {self.allowed}."
        if self.remedy is not None:
            text += f"\n  {self.remedy}"
        return text if self.rank is None else f"[rank {self.rank}] {text}"

    def describe(self) -> str:
        """Returns the class name and the message, as the command line prints them."""
        return f"{type(self).__name__}: {self}"


class UnknownNameError(AnycardError, LookupError):
    """A name that no registry knows."""


class ConfigError(AnycardError, ValueError):
    """A config key or value that cannot be used."""


class PluginError(AnycardError, RuntimeError):
    """A plugin that does not load or breaks a contract."""


class SpecError(AnycardError, ValueError):
    """A model spec whose layers do not fit together."""


class LayoutError(AnycardError, ValueError):
    """A model that cannot be laid over the cards as asked."""


class DataError(AnycardError, ValueError):
    """Data that is missing, damaged or does not fit the model."""


class DeviceError(AnycardError, RuntimeError):
    """A device that is not there or cannot be used."""


class CheckpointError(AnycardError, ValueError):
    """A checkpoint that is damaged or does not fit the run."""


class NonFiniteLossError(AnycardError, ArithmeticError):
    """A loss that is NaN or infinite."""


class CommunicatorError(AnycardError, RuntimeError):
    """A collective that cannot be set up as asked."""


class RankFailedError(AnycardError, RuntimeError):
    """A rank that raised, exited or was killed."""

    exit_code = 1


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is spelt most like `name`, or None when none is close."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return matches[0] if matches else None
