"""What the order of samples follows from; a resumed run must have the same."""

from __future__ import annotations

from typing import Any

from core.config.assembly import Assembly
from core.data import BatchPlan
from core.errors import CheckpointError


def build_batch_plan(assembly: Assembly, num_samples: int) -> BatchPlan:
    """Returns how the epochs of a run are cut.

    Raises:
        ConfigError: The batch does not divide, or an epoch would have no step.
    """
    batch = assembly.config.batch
    shards = batch.shards or assembly.layout.num_batch_shards
    return BatchPlan(num_samples, assembly.global_batch, shards, batch.last, batch.accumulate)


def sample_stream(assembly: Assembly, num_samples: int) -> dict[str, Any]:
    """Returns what fixes which samples each step sees, under the keys that a user writes."""
    config = assembly.config
    return {
        "data": config.data.name,
        "training samples": num_samples,
        "batch.global": assembly.global_batch,
        "batch.last": config.batch.last.value,
        "seed": config.seed,
    }


def check_same_stream(stream: dict[str, Any], saved: dict[str, Any]) -> None:
    """Checks that a run goes on with the samples that would have come next.

    Raises:
        CheckpointError: It would not; names what changed.
    """
    changed = {key: value for key, value in stream.items() if saved.get(key) != value}
    if changed:
        raise CheckpointError(
            "The checkpoint cannot be resumed exactly: the order of samples would change.",
            received=", ".join(f"{key}={value}" for key, value in changed.items()),
            allowed=", ".join(f"{key}={saved.get(key)}" for key in changed),
            remedy="Give these values; batch.global keeps the batch when the number of cards changes.",
        )
