"""The table that opens a run: the model, its parameters and how they lie on the cards."""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.config.assembly import Assembly
from core.config.schema import DEFAULT_EPOCHS
from core.launching.tables import build_table

MOST_ROWS = 30  # parameters that are listed one by one; core.plan lists them all


def start_table(assembly: Assembly, run_dir: Path) -> RenderableType:
    """Returns what is shown before the ranks start."""
    config, layout, spec = assembly.config, assembly.layout, assembly.spec
    length = f"{config.steps} steps" if config.steps else f"{config.epochs or DEFAULT_EPOCHS} epochs"
    head = Table.grid(padding=(0, 2))
    rows = {
        "model": f"{spec.name}, {spec.num_parameters:,} parameters, {spec.flops / 1e6:.2f} MFLOP forward a sample",
        "data": f"{config.data.name}, samples of {'x'.join(map(str, spec.sample.shape))}, "
        f"{spec.sample.num_classes} classes",
        "backend": f"{config.backend.name} on {config.device.value}, {config.communicator.name}",
        "cards": f"{config.cards}, mesh {layout.mesh}, sharder {layout.sharder}",
        "batch": f"{assembly.global_batch} samples a step in {layout.num_batch_shards} "
        f"{'part' if layout.num_batch_shards == 1 else 'parts'}; a short last batch is "
        + ("kept, padded and weighted" if config.batch.last.value == "keep" else "dropped"),
        "run": f"{length}, {config.optimizer.name} lr {assembly.optimizer.lr:g} {config.schedule.name}, "
        f"seed {config.seed}",
        "folder": str(run_dir),
    }
    for key, value in rows.items():
        head.add_row(Text(key, style="bold"), value)
    is_long = len(spec.parameters) > MOST_ROWS
    return Group(head, placement_table(assembly) if is_long else parameter_table(assembly))


def placement_table(assembly: Assembly) -> Table:
    """Returns one row a placement: how many parameters lie so, and their elements in all and on one card."""
    layout = assembly.layout
    numbers = ("parameters", "elements", "on each card")
    table = build_table((f"placement ({', '.join(layout.mesh.axis_names)})", *numbers), right=numbers)
    placements = {
        parameter.name: ", ".join(map(str, layout.parameters[parameter.name])) for parameter in assembly.spec.parameters
    }
    rows = [*dict.fromkeys(placements.values()), "all"]
    for row in rows:
        group = [p for p in assembly.spec.parameters if row in (placements[p.name], "all")]
        local = sum(math.prod(layout.local_shape(parameter)) for parameter in group)
        full = sum(parameter.num_elements for parameter in group)
        style = "bold" if row == "all" else None
        table.add_row(row, f"{len(group)}", f"{full:,}", f"{local:,}", style=style)
    return table


def parameter_table(assembly: Assembly) -> Table:
    """Returns one row a parameter: full shape, placement, local shape and elements on one card."""
    layout = assembly.layout
    axes = ", ".join(layout.mesh.axis_names)
    columns = ("parameter", "shape", f"placement ({axes})", "on each card", "elements")
    table = build_table(columns, right=("elements",))
    local_total = 0
    for parameter in assembly.spec.parameters:
        local = layout.local_shape(parameter)
        local_total += math.prod(local)
        table.add_row(
            parameter.name,
            "x".join(map(str, parameter.shape)),
            ", ".join(map(str, layout.parameters[parameter.name])),
            "x".join(map(str, local)),
            f"{math.prod(local):,}",
        )
    table.add_row("all", f"{assembly.spec.num_parameters:,}", "", "", f"{local_total:,}", style="bold")
    return table
