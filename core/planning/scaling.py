"""How a run would scale: one row for each number of cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.config.assembly import Assembly, assemble
from core.config.schema import RunConfig
from core.errors import AnycardError
from core.launching.tables import build_table
from core.planning.activations import activation_bytes, knows_activations
from core.planning.hardware import Hardware
from core.planning.memory import card_memory
from core.planning.step_time import StepTime, step_time
from core.plugin_system import Catalogue

GIB = 2**30
COLUMNS = ("cards", "samples", "compute ms", "wire ms", "step ms", "samples/s", "speed-up", "of ideal", "GiB")


@dataclass(frozen=True)
class Prediction:
    """What a run on some number of cards would do.

    Attributes:
        cards: How many.
        global_batch: Samples in one update.
        time: Of one step.
        memory_bytes: On one card, activations included where they are known.
        knows_activations: Whether they are.
    """

    cards: int
    global_batch: int
    time: StepTime
    memory_bytes: int
    knows_activations: bool = True

    @property
    def samples_per_s(self) -> float:
        return self.global_batch / self.time.total_s


@dataclass(frozen=True)
class Scaling:
    """Predictions for ascending numbers of cards, and why others cannot be.

    Attributes:
        predictions: By number of cards.
        problems: What is wrong, by number of cards.
    """

    predictions: dict[int, Prediction]
    problems: dict[int, str]

    @property
    def first(self) -> Prediction:
        """The one that the others are held against."""
        return next(iter(self.predictions.values()))


def predict(assembly: Assembly, hardware: Hardware) -> Prediction:
    """Returns what one run would do on a hardware."""
    spec, layout, flow, step = assembly.spec, assembly.layout, assembly.flow, assembly.step
    memory = card_memory(spec, layout, flow, step, assembly.step_size.bucket_mb)
    return Prediction(
        cards=assembly.config.cards,
        global_batch=assembly.global_batch,
        time=step_time(spec, layout, flow, step, assembly.step_size, hardware),
        memory_bytes=memory.total + activation_bytes(spec, layout, flow, step, assembly.global_batch),
        knows_activations=knows_activations(spec),
    )


def predict_scaling(
    config: RunConfig, cards: Sequence[int], catalogue: Catalogue, hardware: Hardware, folder: Path | None = None
) -> Scaling:
    """Returns predictions for each number of cards.

    Args:
        config: The run.
        cards: Numbers of cards.
        catalogue: What the config may name.
        hardware: Of the cards.
        folder: Keeps the description of a user's class from one number to the next; None: it is made for each.

    Raises:
        AnycardError: None of them can be had; the first one's error.
    """
    predictions: dict[int, Prediction] = {}
    problems: dict[int, str] = {}
    error: AnycardError | None = None
    for count in sorted(set(cards)):
        try:
            predictions[count] = predict(assemble(replace(config, cards=count), catalogue, folder), hardware)
        except AnycardError as caught:
            problems[count] = caught.problem
            error = error or caught
    if not predictions and error:
        raise error
    return Scaling(predictions, problems)


def scaling_report(config: RunConfig, scaling: Scaling, hardware: Hardware) -> RenderableType:
    """Returns the table, with what it assumes and why rows are empty."""
    lines = [Text(f"cards={count}: {problem}") for count, problem in scaling.problems.items()]
    if any(one.memory_bytes > hardware.memory_bytes for one in scaling.predictions.values()):
        lines.append(Text(f"! does not fit: a card has {hardware.memory_bytes / GIB:.1f} GiB"))
    activations = "with" if scaling.first.knows_activations else "without"
    peak = getattr(hardware.flops_per_s, config.precision.value)
    lines.append(
        Text(
            f"Predicted, not measured: products at {hardware.efficiency:.0%} (assumed) of {peak / 1e12:g} TFLOP/s; "
            "rings by latency and bandwidth; all else takes no time. 'wire ms' is communication that computing does "
            f"not hide, 'GiB' one card's memory {activations} activations; speed-up and ideal are against "
            f"cards={scaling.first.cards}."
        )
    )
    return Group(_scaling_table(config, scaling, hardware), *lines)


def _scaling_table(config: RunConfig, scaling: Scaling, hardware: Hardware) -> Table:
    batch = config.batch
    kind = (
        f"batch.per_card={batch.per_card} for each part of the batch: weak scaling"
        if batch.global_size is None
        else f"batch.global={batch.global_size} on any number of cards: strong scaling"
    )
    title = f"{config.model.name} with sharder {config.sharder.name} on {hardware.name}, {kind}"
    table = build_table(COLUMNS, right=COLUMNS, title=title)
    table.padding = (0, 0)  # nine columns fit into 80 characters so
    for count in sorted([*scaling.predictions, *scaling.problems]):
        if count in scaling.problems:
            table.add_row(str(count), *("-" for _ in COLUMNS[1:]))
        else:
            table.add_row(*_cells(scaling.predictions[count], scaling.first, hardware))
    return table


def _cells(one: Prediction, first: Prediction, hardware: Hardware) -> list[str]:
    speed_up = one.samples_per_s / first.samples_per_s
    mark = " !" if one.memory_bytes > hardware.memory_bytes else ""
    return [
        str(one.cards),
        f"{one.global_batch:,}",
        _short(one.time.compute_s * 1e3),
        _short(one.time.exposed_s * 1e3),
        _short(one.time.total_s * 1e3),
        f"{one.samples_per_s:,.0f}",
        f"{speed_up:.2f}",
        f"{speed_up * first.cards / one.cards:.0%}",
        _short(one.memory_bytes / GIB) + mark,
    ]


def _short(number: float) -> str:
    """Returns a number with three digits or more."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
