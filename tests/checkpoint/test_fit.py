"""A checkpoint of another model or another optimizer says all that does not fit at once."""

from __future__ import annotations

import numpy as np
import pytest

from core.checkpoint import Checkpoint, Position
from core.contracts import TrainingState
from core.errors import CheckpointError
from core.spec import Flatten, Linear, ModelSpec, SampleSpec

SPEC = ModelSpec("tiny", SampleSpec((1, 2, 2), 3), (Flatten("flatten"), Linear("fc", 4, 5), Linear("out", 5, 3)))


def build_state(slots: tuple[str, ...], num_updates: int = 1) -> Checkpoint:
    shapes = {parameter.name: parameter.shape for parameter in SPEC.parameters}
    arrays = [{name: np.zeros(shape, np.float32) for name, shape in shapes.items()} for _ in range(len(slots) + 1)]
    state = TrainingState(arrays[0], dict(zip(slots, arrays[1:], strict=True)), num_updates)
    return Checkpoint(Position(0, 0, num_updates), state)


def test_what_fits_passes() -> None:
    build_state(("exp_avg", "exp_avg_sq")).check_fits(SPEC, ("exp_avg", "exp_avg_sq"))
    build_state(()).check_fits(SPEC, ())
    build_state((), num_updates=0).check_fits(SPEC, ("momentum_buffer",))


def test_all_differences_are_in_one_error() -> None:
    checkpoint = build_state(("exp_avg", "momentum_buffer"))
    parameters = checkpoint.state.parameters
    del parameters["fc.bias"]
    parameters["head.weight"] = np.zeros(3, np.float32)
    parameters["out.weight"] = np.zeros((10, 5), np.float32)
    checkpoint.state.slots["exp_avg"]["fc.weight"] = np.zeros((4, 5), np.float32)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.check_fits(SPEC, ("exp_avg", "exp_avg_sq"))
    for part in (
        "'fc.bias' missing",
        "'head.weight' unexpected",
        "'out.weight' has shape (10, 5) instead of (3, 5)",
        "'exp_avg.fc.weight' has shape (4, 5) instead of (5, 4)",
        "slot 'exp_avg_sq' missing",
        "slot 'momentum_buffer' unexpected",
    ):
        assert part in str(caught.value)
