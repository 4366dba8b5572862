"""From a typed config to the objects that it names, with everything checked that can be without a framework."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.config.schedule import Constant, Cosine, Schedule, Step
from core.config.schema import Choice, Device, OnNan, RunConfig
from core.config.typed import build_typed
from core.config.user_model import build_spec, with_notes
from core.contracts import (
    SGD,
    Adam,
    AdamW,
    Backend,
    Communicator,
    Dataset,
    DeviceProbe,
    Model,
    Optimizer,
    Sharder,
    StepSpec,
    Transform,
)
from core.contracts.communicator import CommunicatorOptions
from core.errors import ConfigError, DeviceError
from core.layout import Flow, Layout, StepSize, build_flow
from core.plugin_system import Catalogue, Registry
from core.spec import BatchNorm2d, ModelSpec

AUTO_COMMUNICATOR = "auto"


@dataclass(frozen=True)
class Assembly:
    """The parts of a run.

    Attributes:
        config: The config, with device and communicator resolved.
        transforms: The data set's, with the random ones of the config.
        global_batch: Samples in one update.
    """

    config: RunConfig
    backend: Backend
    model: Model
    dataset: Dataset
    transforms: tuple[Transform, ...]
    sharder: Sharder
    communicator: Communicator[Any]
    optimizer: Optimizer
    schedule: Schedule
    step: StepSpec
    spec: ModelSpec
    layout: Layout
    flow: Flow
    global_batch: int

    @property
    def step_size(self) -> StepSize:
        """What a step's bytes depend on beside spec and layout."""
        return build_step_size(self.step, self.communicator.options, self.global_batch)


def build_step_size(step: StepSpec, options: CommunicatorOptions, global_batch: int) -> StepSize:
    """Returns what the bytes of a step with `global_batch` samples depend on."""
    return StepSize(
        global_batch=global_batch,
        shards=step.shards,
        accumulate=step.accumulate,
        clips=step.clip_norm is not None,
        bucket_mb=options.bucket_mb,
        gradient_bytes=options.compress.gradient_bytes,
        activation_bytes=step.precision.compute_bytes,
    )


def optimizers() -> Registry[type[Optimizer]]:
    """Returns the update rules by name."""
    registry: Registry[type[Optimizer]] = Registry("optimizer")
    for rule in (Adam, AdamW, SGD):
        registry.add(rule.name, rule, "core")
    return registry


def schedules() -> Registry[type[Schedule]]:
    """Returns the schedules of the learning rate by name."""
    registry: Registry[type[Schedule]] = Registry("schedule")
    for cls in (Constant, Cosine, Step):
        registry.add(cls.name, cls, "core")
    return registry


def build_plugged(catalogue: Catalogue, kind: str, choice: Choice) -> Any:
    """Returns an instance of what `choice` names, with its options checked.

    Raises:
        UnknownNameError: Nobody provides the name.
        ConfigError: An option is unknown or has a value of the wrong type.
    """
    cls = catalogue.get(kind, choice.name)
    return cls(build_typed(cls.Options, choice.options, kind))


def assemble(config: RunConfig, catalogue: Catalogue, folder: Path | None = None) -> Assembly:
    """Builds and checks the parts of a run; a device or communicator "auto" is resolved.

    Args:
        config: The run.
        catalogue: What it may name.
        folder: Holds the description of a user's class, or gets it (model=native); None: initial values will not be
            asked for.

    Raises:
        AnycardError: Whatever is wrong with the config, the data's headers, the layout or the device.
    """
    backend: Backend = build_plugged(catalogue, "backend", config.backend)
    model: Model = build_plugged(catalogue, "model", config.model)
    dataset: Dataset = build_plugged(catalogue, "data", config.data)
    sharder: Sharder = build_plugged(catalogue, "sharder", config.sharder)
    rule = optimizers().get(config.optimizer.name)
    optimizer = build_typed(rule, config.optimizer.options, "optimizer")
    schedule = build_typed(schedules().get(config.schedule.name), config.schedule.options, "schedule")
    spec = build_spec(model, backend, dataset.sample_spec(), config.seed, folder)
    layout = with_notes(spec, sharder.plan(spec, config.cards), config.batch.shards)
    flow = build_flow(spec, layout)
    if config.batch.shards is not None:
        check_shards(spec, layout, flow, config.batch.shards)
    config = replace(config, device=Device(choose_device(backend, config.device.value, config.cards_per_node).device))
    config = replace(config, communicator=_resolve_communicator(backend, config))
    communicator = build_plugged(catalogue, "communicator", config.communicator)
    if config.device.value not in communicator.devices:
        raise ConfigError(
            f"Communicator '{communicator.name}' does not serve device '{config.device.value}'.",
            allowed=f"devices {', '.join(communicator.devices)}",
            remedy="Use communicator=auto, which takes the one that fits the device.",
        )
    return Assembly(
        config=config,
        backend=backend,
        model=model,
        dataset=dataset,
        transforms=config.augment.added_to(dataset.transforms()),
        sharder=sharder,
        communicator=communicator,
        optimizer=optimizer,
        schedule=schedule,
        step=StepSpec(
            optimizer=optimizer,
            precision=config.precision,
            shards=config.batch.shards,
            accumulate=config.batch.accumulate,
            clip_norm=config.clip_norm,
            label_smoothing=config.label_smoothing,
            ema_decay=config.ema_decay,
            skip_non_finite=config.on_nan is OnNan.skip,
        ),
        spec=spec,
        layout=layout,
        flow=flow,
        global_batch=config.batch.global_size
        or config.batch.per_card * config.batch.accumulate * layout.num_batch_shards,
    )


def check_shards(spec: ModelSpec, layout: Layout, flow: Flow, shards: int) -> None:
    """Checks that a batch can be computed in `shards` parts, summed in one order.

    Raises:
        ConfigError: The layout moves activations, the cards do not divide the parts, the optimizer's state is shared
            out, or a batch norm sees but one part.
    """
    what = f"'batch.shards={shards}' cannot be had"
    if any(True for _ in flow.transitions):
        raise ConfigError(
            f"{what} with sharder '{layout.sharder}', which moves activations between cards.",
            allowed="a sharder that only splits the batch",
            remedy="Use sharder=data_parallel, or batch.shards=null.",
        )
    if layout.state_axes:
        raise ConfigError(
            f"{what} with sharder '{layout.sharder}': each card updates another piece of the weights, and a vectorised "
            "update rounds differently at the end of a piece.",
            remedy="Use sharder=data_parallel, or batch.shards=null.",
        )
    if shards % layout.num_batch_shards:
        raise ConfigError(
            f"{what}: it does not divide by the cards that split the batch.",
            received=f"{layout.num_batch_shards} cards",
            allowed=f"a divisor of {shards}",
        )
    alone = [layer.name for layer in spec.layers if isinstance(layer, BatchNorm2d) and not layer.synchronized]
    if alone:
        raise ConfigError(
            f"{what} with batch norms that see one card's rows alone.",
            received=f"'{alone[0]}'" + (f" and {len(alone) - 1} more" if len(alone) > 1 else ""),
            remedy="Set model.sync_batch_norm=true.",
        )


def choose_device(backend: Backend, wanted: str, cards: int) -> DeviceProbe:
    """Returns the device that ranks will use.

    Args:
        backend: What they run on.
        wanted: The kind that was asked for, or auto.
        cards: Cards on this machine.

    Raises:
        DeviceError: The device that was asked for is not there, or there are fewer of it than cards.
    """
    if wanted == Device.auto.value:
        probes = [backend.probe(device) for device in backend.devices]
        usable = [probe for probe in probes if not probe.missing]
        if not usable:
            raise DeviceError(
                f"Backend '{backend.name}' finds no device that it can use.",
                received="; ".join(f"{probe.device}: {', '.join(probe.missing)}" for probe in probes),
            )
        return usable[0]
    if wanted not in backend.devices:
        raise DeviceError(
            f"Backend '{backend.name}' does not run on device '{wanted}'.",
            allowed=f"auto, {', '.join(backend.devices)}",
        )
    probe = backend.probe(wanted)
    if probe.missing:
        raise DeviceError(
            f"Device '{wanted}' cannot be used here.",
            received="; ".join(probe.missing),
            remedy="Use device=cpu, or device=auto to take what is there.",
        )
    if probe.count is not None and cards > probe.count:
        raise DeviceError(
            f"More cards than devices: {cards} on this machine, but there are {probe.count} of device '{wanted}'.",
            allowed=f"1 to {probe.count} on each machine (cards divided by nodes)",
            remedy="Use fewer cards, or device=cpu, where a process stands in for a card.",
        )
    return probe


def _resolve_communicator(backend: Backend, config: RunConfig) -> Choice:
    if config.communicator.name != AUTO_COMMUNICATOR:
        return config.communicator
    return replace(config.communicator, name=backend.default_communicator(config.device.value))
