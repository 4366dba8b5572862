"""Small checkpoints whose every value follows from their step, so that a test can tell one from another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from core.checkpoint import Checkpoint, Position
from core.contracts import TrainingState

STEPS_PER_EPOCH = 7
SLOTS = ("exp_avg", "exp_avg_sq")
SHAPES = {"conv1.weight": (3, 1, 5, 5), "conv1.bias": (3,), "scale": (), "none": (0, 4), "fc.weight": (20, 50)}


def build_checkpoint(step: int, mark: int = 0) -> Checkpoint:
    """Returns the checkpoint of a step; `mark` tells two of one step apart."""
    generator = np.random.default_rng([step, mark])

    def draw() -> dict[str, npt.NDArray[np.float32]]:
        return {name: np.asarray(generator.standard_normal(shape), np.float32) for name, shape in SHAPES.items()}

    epoch, within = divmod(step, STEPS_PER_EPOCH)
    return Checkpoint(
        position=Position(epoch=epoch, step_in_epoch=within, step=step),
        state=TrainingState(draw(), {slot: draw() for slot in SLOTS}, num_updates=step - 1),
        progress={"sums": {"loss": 0.1 + 0.2 * step}, "epochs": [{"epoch": 1}], "mark": mark},
        metrics={"eval_accuracy": step / 3, "eval_loss": 1e-300},
        config={"seed": 3, "resume": "never", "text": "Gewicht \u2603", "batch": {"global": 64}, "none": None},
    )


def assert_same(found: Checkpoint, expected: Checkpoint) -> None:
    """Checks that two checkpoints are the same to the last bit."""
    assert found.position == expected.position
    assert found.state.num_updates == expected.state.num_updates
    assert (found.progress, found.metrics, found.config) == (expected.progress, expected.metrics, expected.config)
    assert list(found.state.slots) == list(expected.state.slots)
    assert_same_arrays(found.state.parameters, expected.state.parameters)
    for slot, arrays in expected.state.slots.items():
        assert_same_arrays(found.state.slots[slot], arrays)


def assert_same_arrays(found: dict[str, npt.NDArray[np.float32]], expected: dict[str, npt.NDArray[np.float32]]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == np.float32
        assert found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name
