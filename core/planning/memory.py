"""Bytes that one card holds between steps, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from core.contracts import StepSpec
from core.layout import Flow, Layout, gradient_buckets
from core.layout.buckets import DEFAULT_BUCKET_MB, FP32_BYTES
from core.spec import ModelSpec, ParameterSpec


@dataclass(frozen=True)
class CardMemory:
    """Bytes on one card, float32 but for a user's own buffers; the same on every card of a layout.

    Attributes:
        weights: The local parts of the parameters; whole flat buckets where the optimizer's state is shared.
        gradients: Flat buckets, one set for each part of the batch that the card computes, and beside them the card's
            piece of the sum where the optimizer's state is shared.
        optimizer: The rule's slots; the frameworks' own counters of updates, 4 bytes a tensor, are left out.
        buffers: Running statistics, and what a user's class holds without training it.
        average: The weights' moving average.
    """

    weights: int
    gradients: int
    optimizer: int
    buffers: int
    average: int

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))


def card_memory(
    spec: ModelSpec, layout: Layout, flow: Flow, step: StepSpec, bucket_mb: float = DEFAULT_BUCKET_MB
) -> CardMemory:
    """Returns what one card holds of the model and its optimizer.

    Args:
        spec: The model.
        layout: How it lies.
        flow: Of spec and layout.
        step: Says the optimizer's slots, whether there is an average, and in how many parts the batch is computed.
        bucket_mb: Gradients travel in buckets of about so many MiB.
    """
    buckets = gradient_buckets(spec, layout, flow, bucket_mb)
    whole = sum(bucket.num_bytes for bucket in buckets)
    own = sum(bucket.num_bytes // bucket.num_pieces for bucket in buckets)
    is_shared = own < whole
    parts = (step.shards or layout.num_batch_shards) // layout.num_batch_shards
    weights = _local_bytes(spec.parameters, layout)
    return CardMemory(
        weights=whole if is_shared else weights,
        gradients=parts * whole + (own if is_shared else 0),
        optimizer=len(step.optimizer.slots) * own,
        buffers=sum(buffer.num_bytes for buffer in spec.buffers),
        average=0 if step.ema_decay is None else weights,
    )


def _local_bytes(parameters: Iterable[ParameterSpec], layout: Layout) -> int:
    return sum(math.prod(layout.local_shape(parameter)) for parameter in parameters) * FP32_BYTES
