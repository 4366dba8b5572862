"""The schema of a run: every key that does not belong to a plugin, with its type, unit and default.

The defaults that a user meets stand in conf/config.yaml; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from core.config.augment import AugmentConfig
from core.contracts import Precision
from core.data.batches import LastBatch
from core.errors import ConfigError

DEFAULT_EPOCHS = 60


class Device(Enum):
    """The kind of device that ranks use; auto takes the backend's first that is there, and says which."""

    auto = "auto"
    cpu = "cpu"
    npu = "npu"
    cuda = "cuda"


class Launcher(Enum):
    """Who starts the ranks: this command, or somebody who has started one process a rank already (torchrun, srun)."""

    local = "local"
    external = "external"


class OnNan(Enum):
    """What to do when a loss or gradient is not finite."""

    stop = "stop"
    skip = "skip"


# What a sweep does when one of its jobs fails; made so because Python takes no member by the name of `continue`.
OnError = Enum("OnError", {"continue": "continue", "stop": "stop"})


def require(fits: bool, key: str, received: object, allowed: str) -> None:
    """Raises ConfigError for `key` unless it fits."""
    if not fits:
        raise ConfigError(f"'{key}' is out of range.", received=received, allowed=allowed)


@dataclass(kw_only=True)
class ClusterConfig:
    """How the machines of a run find each other; without effect on a single one."""

    node_rank: int = 0  # which machine this is, 0 to nodes - 1; the one key that may differ between them
    rendezvous: str | None = None  # HOST:PORT of machine 0, as the others reach it; needed when nodes > 1
    timeout_s: float = 600.0  # seconds to wait for the other machines before the run starts

    def __post_init__(self) -> None:
        require(self.node_rank >= 0, "cluster.node_rank", self.node_rank, "at least 0")
        require(self.timeout_s > 0, "cluster.timeout_s", self.timeout_s, "above 0")
        host, _, port = (self.rendezvous or "host:1").rpartition(":")
        fits = bool(host) and port.isdecimal() and 0 < int(port) < 65536
        require(fits, "cluster.rendezvous", self.rendezvous, "HOST:PORT with a port of 1 to 65535")


@dataclass(kw_only=True)
class BatchConfig:
    """How many samples one update sees."""

    per_card: int = 64  # samples for each part of the batch; times the number of parts it is the global batch
    global_size: int | None = None  # samples in the global batch (key: batch.global); overrides per_card
    accumulate: int = 1  # parts in which a card runs its batch, one after the other; per_card counts one part
    shards: int | None = None  # parts in which the batch is computed on any number of cards, for the same bits on all
    last: LastBatch = LastBatch.keep  # an epoch's last short batch: keep it, padded and weighted, or drop it

    def __post_init__(self) -> None:
        require(self.per_card >= 1, "batch.per_card", self.per_card, "at least 1")
        require(self.global_size is None or self.global_size >= 1, "batch.global", self.global_size, "at least 1")
        require(self.accumulate >= 1, "batch.accumulate", self.accumulate, "at least 1")
        is_power = self.shards is None or (self.shards >= 1 and self.shards.bit_count() == 1)
        require(is_power, "batch.shards", self.shards, "a power of two, or null")


@dataclass(kw_only=True)
class EvalConfig:
    """When to evaluate."""

    every_epochs: int = 1  # epochs between evaluations, and one at the end; 0: never
    batch: int = 256  # samples a card evaluates at once; more is faster until memory runs out

    def __post_init__(self) -> None:
        require(self.every_epochs >= 0, "eval.every_epochs", self.every_epochs, "at least 0 (0: never)")
        require(self.batch >= 1, "eval.batch", self.batch, "at least 1")


@dataclass(kw_only=True)
class EarlyStopConfig:
    """When a run ends before its last step."""

    patience: int = 0  # evaluations in a row without a better accuracy after which the run ends; 0: never

    def __post_init__(self) -> None:
        require(self.patience >= 0, "early_stop.patience", self.patience, "at least 0 (0: never)")


@dataclass(kw_only=True)
class CheckpointConfig:
    """When to save, and what to keep."""

    every_steps: int = 100  # steps between checkpoints, beside the best and the last; 0: only these
    keep: int = 2  # newest checkpoints that are kept, beside the best

    def __post_init__(self) -> None:
        require(self.every_steps >= 0, "checkpoint.every_steps", self.every_steps, "at least 0 (0: best and last)")
        require(self.keep >= 1, "checkpoint.keep", self.keep, "at least 1")


@dataclass(kw_only=True)
class LogConfig:
    """What is written down."""

    every_steps: int = 10  # steps between lines of metrics.jsonl

    def __post_init__(self) -> None:
        require(self.every_steps >= 1, "log.every_steps", self.every_steps, "at least 1")


@dataclass(kw_only=True)
class SweepConfig:
    """How a multirun goes on."""

    on_error: OnError = OnError["continue"]  # when a job fails: continue with the others, or stop


@dataclass(kw_only=True)
class Choice:
    """One config group's choice: a name, and the options of what it names."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class RunConfig:
    """One run."""

    backend: Choice
    model: Choice
    data: Choice
    sharder: Choice
    communicator: Choice
    optimizer: Choice
    schedule: Choice
    cards: int = 1  # accelerators, or processes that stand in for them; one rank each
    nodes: int = 1  # machines, each with the same number of cards
    launcher: Launcher = Launcher.local
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    device: Device = Device.auto
    batch: BatchConfig = field(default_factory=BatchConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    epochs: int | None = None  # passes over the training data; 60 when steps is not given either
    steps: int | None = None  # updates, instead of epochs
    seed: int = 0  # of initial values and sample order
    deterministic: bool = False  # ask every library for the same bits each time, at some speed
    precision: Precision = Precision.fp32
    ema_decay: float | None = None  # of the weights' moving average, which evaluation then runs; null: none
    clip_norm: float | None = None  # largest norm of all gradients together that passes unchanged; null: no limit
    label_smoothing: float = 0.0  # weight of the uniform distribution in the training targets
    eval: EvalConfig = field(default_factory=EvalConfig)
    early_stop: EarlyStopConfig = field(default_factory=EarlyStopConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    resume: str = "never"  # never, auto (the run directory's newest whole checkpoint) or a path
    log: LogConfig = field(default_factory=LogConfig)
    on_nan: OnNan = OnNan.stop
    objective: str = "eval_accuracy"  # the summary's number that a sweep optimises
    sweep: SweepConfig = field(default_factory=SweepConfig)

    @property
    def cards_per_node(self) -> int:
        """Cards on each machine."""
        return self.cards // self.nodes

    def __post_init__(self) -> None:
        require(self.cards >= 1, "cards", self.cards, "at least 1")
        require(self.nodes >= 1, "nodes", self.nodes, "at least 1")
        require(self.epochs is None or self.epochs >= 1, "epochs", self.epochs, "at least 1")
        require(self.steps is None or self.steps >= 1, "steps", self.steps, "at least 1")
        require(self.clip_norm is None or self.clip_norm > 0, "clip_norm", self.clip_norm, "above 0, or null")
        decay = self.ema_decay
        require(decay is None or 0 < decay < 1, "ema_decay", decay, "a number between 0 and 1, or null")
        require(0 <= self.label_smoothing < 1, "label_smoothing", self.label_smoothing, "a number in [0, 1)")
        if self.cards % self.nodes:
            raise ConfigError(
                "'cards' does not divide evenly among 'nodes'.",
                received=f"cards={self.cards} nodes={self.nodes}",
                allowed="the same number of cards on each machine; cards counts those of all machines",
                remedy=f"Use cards={max(1, self.cards // self.nodes) * self.nodes}, or another number of nodes.",
            )
        if self.cluster.node_rank >= self.nodes:
            raise ConfigError(
                "'cluster.node_rank' names no machine of this run.",
                received=f"cluster.node_rank={self.cluster.node_rank} nodes={self.nodes}",
                allowed="0 to nodes - 1",
            )
        if self.early_stop.patience and not self.eval.every_epochs:
            raise ConfigError(
                "'early_stop.patience' would be without effect, since the run never evaluates.",
                received="eval.every_epochs=0",
                remedy="Set eval.every_epochs, or early_stop.patience=0.",
            )
        if self.epochs is not None and self.steps is not None:
            raise ConfigError(
                "'epochs' and 'steps' are both set.",
                received=f"epochs={self.epochs} steps={self.steps}",
                allowed="one of them",
                remedy="Set the other to null.",
            )
