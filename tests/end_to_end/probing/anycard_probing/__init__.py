"""A backend for the tests: PyTorch's, with a fault at a chosen step and a look at what lives on each rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core import Backend, hookimpl


@hookimpl
def anycard_backends() -> Sequence[type[Backend]]:
    from anycard_probing.backend import ProbedBackend

    return [ProbedBackend]


@hookimpl
def anycard_config_folders() -> Sequence[str]:
    return [str(Path(__file__).parent / "conf")]
