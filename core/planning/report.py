"""The report that core.plan prints."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.config.assembly import Assembly
from core.launching.start_table import parameter_table
from core.launching.tables import build_table
from core.layout import Payload, step_payloads, wire_bytes
from core.planning.activations import activation_bytes, knows_activations
from core.planning.cost import alternatives, break_even, layout_wire_bytes
from core.planning.memory import card_memory
from core.plugin_system import Catalogue


def plan_report(assembly: Assembly, catalogue: Catalogue) -> RenderableType:
    """Returns mesh, placements, bytes per card and bytes on the wire, and what other sharders would move."""
    config, layout = assembly.config, assembly.layout
    head = Text(
        f"{assembly.spec.name} with sharder {layout.sharder} on {config.cards} cards: mesh {layout.mesh}, "
        f"{assembly.global_batch} samples a step in {layout.num_batch_shards} parts"
    )
    payloads = step_payloads(assembly.spec, layout, assembly.flow, assembly.step_size)
    lines = [Text(line) for line in _advice(assembly, catalogue)]
    return Group(head, parameter_table(assembly), _memory_table(assembly), _wire_table(payloads), *lines)


def _memory_table(assembly: Assembly) -> Table:
    spec, layout, flow, step = assembly.spec, assembly.layout, assembly.flow, assembly.step
    memory = card_memory(spec, layout, flow, step, assembly.step_size.bucket_mb)
    activations = activation_bytes(spec, layout, flow, step, assembly.global_batch)
    table = build_table(("on each card", "bytes"), right=("bytes",), title="memory")
    for name, size in (
        ("weights", memory.weights),
        ("gradients", memory.gradients),
        (f"optimizer ({assembly.optimizer.name})", memory.optimizer),
        ("buffers", memory.buffers),
        ("average", memory.average),
    ):
        if size:
            table.add_row(name, f"{size:,}")
    table.add_row("together", f"{memory.total:,}", style="bold")
    table.add_row(
        "activations", f"about {activations:,}" if knows_activations(spec) else "unknown: a class of your own"
    )
    return table


def _wire_table(payloads: tuple[Payload, ...]) -> Table:
    """Returns one row a collective and purpose: how often, what it carries, what each card sends."""
    numbers = ("cards", "tensors", "payload", "sent by each card")
    table = build_table(("collective", "carries", *numbers), right=numbers, title="bytes on the wire a step")
    total = 0.0
    for key in dict.fromkeys((p.collective, p.purpose, p.group_size) for p in payloads):
        group = [p for p in payloads if (p.collective, p.purpose, p.group_size) == key]
        sent = sum(wire_bytes(p.collective, p.group_size, p.payload_bytes) for p in group)
        total += sent
        payload = sum(p.payload_bytes for p in group)
        table.add_row(key[0], key[1], str(key[2]), str(len(group)), f"{payload:,}", f"{sent:,.0f}")
    table.add_row("all", "", "", str(len(payloads)), "", f"{total:,.0f}", style="bold")
    return table


def _advice(assembly: Assembly, catalogue: Catalogue) -> Iterator[str]:
    """Yields sentences on sharders that would move fewer bytes, with the batch at which that turns."""
    if assembly.config.cards == 1:
        yield "One card: nothing is on the wire."
        return
    own = layout_wire_bytes(assembly.spec, assembly.layout, assembly.step_size)
    fewer = [other for other in alternatives(assembly, catalogue) if other.wire_bytes < own]
    if not fewer:
        yield f"No other sharder moves fewer bytes at {assembly.global_batch} samples a step."
    for other in fewer:
        yield (
            f"sharder={other.layout.sharder} would move fewer bytes: {other.wire_bytes:,.0f} a card and step, "
            f"{own / other.wire_bytes:.2f} times fewer at {assembly.global_batch} samples a step."
        )
        more = assembly.layout.num_batch_shards // max(other.layout.num_batch_shards, 1)
        if more > 1:
            yield f"  But each card would run {more} times as many samples."
        turn = break_even(assembly.spec, assembly.layout, other.layout, assembly.step_size)
        if turn:
            yield f"  {assembly.layout.sharder} moves fewer than {other.layout.sharder} below {turn} samples a step."
