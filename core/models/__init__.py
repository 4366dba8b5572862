"""The core's own models."""

from __future__ import annotations

from collections.abc import Sequence

from core.contracts import Model
from core.hookspecs import hookimpl


@hookimpl
def anycard_models() -> Sequence[type[Model]]:
    from core.models.lenet5 import LeNet5

    return [LeNet5]
