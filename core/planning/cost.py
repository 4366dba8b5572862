"""Bytes that a layout holds on a card and puts on the wire."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from core.config.assembly import Assembly
from core.contracts import Sharder
from core.errors import AnycardError
from core.layout import Layout, StepSize, build_flow, step_payloads
from core.layout.buckets import FP32_BYTES
from core.layout.traffic import total_wire_bytes
from core.plugin_system import Catalogue
from core.spec import ModelSpec

MOST_BATCH = 2**20


@dataclass(frozen=True)
class CardMemory:
    """Bytes on one card, float32."""

    weights: int
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True)
class Alternative:
    """Another sharder on the same cards: its layout, and the bytes that each card would send a step."""

    layout: Layout
    wire_bytes: float


def card_memory(assembly: Assembly) -> CardMemory:
    """Returns what one card holds of the model and its optimizer; the same on every card."""
    elements = sum(math.prod(assembly.layout.local_shape(parameter)) for parameter in assembly.spec.parameters)
    size = elements * FP32_BYTES
    return CardMemory(weights=size, gradients=size, optimizer=size * len(assembly.optimizer.slots))


def layout_wire_bytes(spec: ModelSpec, layout: Layout, size: StepSize) -> float:
    """Returns the bytes that each card sends in one step."""
    return total_wire_bytes(step_payloads(spec, layout, build_flow(spec, layout), size))


def alternatives(assembly: Assembly, catalogue: Catalogue) -> list[Alternative]:
    """Returns the other sharders that can lay this model over these cards, the one with the fewest bytes first.

    Each is costed at the same number of samples an update.
    """
    found = []
    for name, cls, _ in catalogue.registries["sharder"]:
        if name == assembly.sharder.name:
            continue
        try:
            sharder: Sharder = cls(cls.Options())
            layout = sharder.plan(assembly.spec, assembly.config.cards)
            size = layout_wire_bytes(assembly.spec, layout, assembly.step_size)
        except (AnycardError, TypeError):
            continue  # it cannot lay this model over these cards, or needs options of its own
        found.append(Alternative(layout, size))
    return sorted(found, key=lambda alternative: alternative.wire_bytes)


def break_even(spec: ModelSpec, one: Layout, other: Layout, size: StepSize) -> int | None:
    """Returns the smallest global batch at which `one` moves more bytes a step than `other`; None if there is none."""
    low, high = 1, MOST_BATCH
    parts = max(one.num_batch_shards, other.num_batch_shards)

    def is_more(batch: int) -> bool:
        scaled = replace(size, global_batch=batch * parts)
        return layout_wire_bytes(spec, one, scaled) > layout_wire_bytes(spec, other, scaled)

    if not is_more(high) or is_more(low):
        return None
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_more(middle) else (middle, high)
    return high * parts
