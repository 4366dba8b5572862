"""What a checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.contracts import TrainingState
from core.errors import CheckpointError
from core.spec import ModelSpec

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Position:
    """Where a run stands.

    Attributes:
        epoch: The epoch of the next step, from 0.
        step_in_epoch: Steps of that epoch that are done.
        step: Steps of the run that are done.
    """

    epoch: int
    step_in_epoch: int
    step: int


@dataclass
class Checkpoint:
    """A run at one moment.

    JSON knows no NaN and no infinity: such a number in `progress`, `metrics` or `config` is stored as null and comes
    back as None. Tensors keep every bit, NaN included.

    Attributes:
        position: Where it stands.
        state: Full tensors, float32.
        progress: The trainer's records, plain JSON values.
        metrics: The numbers of the last evaluation, by name.
        config: The run's config, plain JSON values.
    """

    position: Position
    state: TrainingState
    progress: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)

    def check_fits(self, spec: ModelSpec, slots: tuple[str, ...]) -> None:
        """Checks that the tensors are those of a model and an optimizer.

        Slots may be missing while no update has been done, since they are zero then.

        Args:
            spec: The model that is to take the parameters.
            slots: Names of the optimizer's slots.

        Raises:
            CheckpointError: Names are missing, unexpected or misshapen; all of them in one message.
        """
        expected = {parameter.name: tuple(parameter.shape) for parameter in spec.parameters}
        buffers = {buffer.name: tuple(buffer.shape) for buffer in spec.buffers}
        odd = _differences(expected | buffers, _shapes(self.state.parameters | self.state.buffers))
        for slot in sorted({*slots, *self.state.slots}):
            if slot in slots and slot in self.state.slots:
                moments = {f"{slot}.{name}": shape for name, shape in expected.items()}
                odd += _differences(moments, _shapes(self.state.slots[slot], prefix=f"{slot}."))
            elif slot not in slots:
                odd.append(f"optimizer slot '{slot}' unexpected")
            elif self.state.num_updates:
                odd.append(f"optimizer slot '{slot}' missing")
        if odd:
            raise CheckpointError(
                f"The checkpoint at step {self.position.step} does not fit model '{spec.name}' and its optimizer.",
                received="; ".join(odd),
                allowed=f"the {len(expected)} parameters of '{spec.name}', and slots {', '.join(slots) or 'none'}",
                remedy="Resume with the model and the optimizer that it was saved with.",
            )


def _shapes(arrays: dict[str, Any], prefix: str = "") -> Shapes:
    return {f"{prefix}{name}": tuple(array.shape) for name, array in arrays.items()}


def _differences(expected: Shapes, found: Shapes) -> list[str]:
    """Returns one phrase for each name that is missing, unexpected or of another shape."""
    return [
        *(f"'{name}' missing" for name in sorted(expected.keys() - found.keys())),
        *(f"'{name}' unexpected" for name in sorted(found.keys() - expected.keys())),
        *(
            f"'{name}' has shape {found[name]} instead of {expected[name]}"
            for name in sorted(expected.keys() & found.keys())
            if found[name] != expected[name]
        ),
    ]
