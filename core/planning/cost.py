"""Bytes that a layout puts on the wire, and what other sharders would."""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.config.assembly import Assembly
from core.contracts import Sharder
from core.errors import AnycardError
from core.layout import Layout, StepSize, build_flow, step_payloads
from core.layout.traffic import total_wire_bytes
from core.plugin_system import Catalogue
from core.spec import ModelSpec

MOST_BATCH = 2**20


@dataclass(frozen=True)
class Alternative:
    """Another sharder on the same cards: its layout, and the bytes that each card would send a step."""

    layout: Layout
    wire_bytes: float


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
