"""The contract of a backend: how a framework starts ranks and builds an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from core.contracts.communicator import Communicator
from core.contracts.engine import Engine
from core.contracts.options import Plugged
from core.contracts.step import StepSpec
from core.contracts.transforms import Transform
from core.contracts.user_class import DescribeRequest
from core.layout import Flow, Layout
from core.spec import ModelSpec


@dataclass(frozen=True)
class DeviceProbe:
    """Whether a kind of device can be used here.

    Attributes:
        device: The kind: npu, cuda or cpu.
        count: How many there are; None where the number is no limit (processes on a CPU).
        missing: All that is missing, a clause each, what matters most first; empty when the device can be used.
    """

    device: str
    count: int | None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankInfo:
    """Who this process is.

    Attributes:
        rank: In [0, world_size).
        local_rank: Among the ranks of this machine.
        world_size: Number of ranks.
        device: The kind of device this rank uses.
        nodes: Machines that the ranks lie on, each with the same number of them.
    """

    rank: int
    local_rank: int
    world_size: int
    device: str
    nodes: int = 1


@dataclass(frozen=True)
class LaunchJob:
    """What the parent asks a backend's launcher to start on its own machine.

    On machine k of several, ranks k * cards to (k + 1) * cards - 1 are started; each machine has a parent that starts
    its own, and they meet at the rendezvous, which machine 0 offers.

    Attributes:
        run_dir: The run directory, which holds the frozen config.
        cards: Ranks to start on this machine.
        worker: The module that every rank runs, with the run directory as its argument.
        exits: A file to which the launcher appends one JSON object a failed rank: rank, exit_code (negative for a
            signal, as `subprocess` has it).
        nodes: Machines of the run.
        node_rank: Which of them this is.
        rendezvous: HOST:PORT of machine 0; None when there is one machine, where a free port will do.
        is_external: Whether a launcher outside has started this process as one of the ranks, `read_rank` saying which.
            Then only that one is to be started, as the very process of the command, since nothing else watches it;
            the other fields stay as they are, but for `rendezvous`, which is None, and `exits`, which the caller
            writes.
    """

    run_dir: Path
    cards: int
    worker: str
    exits: Path
    nodes: int = 1
    node_rank: int = 0
    rendezvous: str | None = None
    is_external: bool = False


@dataclass(frozen=True)
class LaunchCommand:
    """A process to start.

    Attributes:
        argv: Its arguments.
        environment: Variables to set beside the parent's own.
        peer: A host by which the machines of the run reach each other, on which the communicator may have to settle;
            None when there is one machine.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    peer: str | None = None


@dataclass(frozen=True)
class EngineRequest:
    """From what an engine is built.

    Attributes:
        spec: The network.
        layout: Where its tensors lie.
        flow: The collectives that follow from both.
        transforms: What turns stored samples into the model's, in order.
        communicator: Open on the layout's mesh.
        step: What happens in one training step.
        rank: Who this process is.
        seed: The run's seed, by which random transforms and dropout draw.
    """

    spec: ModelSpec
    layout: Layout
    flow: Flow
    transforms: tuple[Transform, ...]
    communicator: Communicator[Any]
    step: StepSpec
    rank: RankInfo
    seed: int


class Backend(Plugged, ABC):
    """A framework.

    System rules: `probe`, `default_communicator`, `launch_command` and `describe_command` are called in the parent and
    import no framework; the others are called once on each rank, in the order `read_rank`, `prepare`, `build_engine`.
    With launcher=external the parent, of which there is then one a rank, asks `read_rank` too. Ranks are processes, one
    a card, that end with their launcher.

    Attributes:
        devices: The device kinds that it can run on, the preferred one first.
        modules: Top-level modules of the framework, which are never imported in the parent.
    """

    devices: ClassVar[tuple[str, ...]]
    modules: ClassVar[tuple[str, ...]]

    @abstractmethod
    def probe(self, device: str) -> DeviceProbe:
        """Returns whether one of `devices` can be used on this machine, without touching it."""

    @abstractmethod
    def default_communicator(self, device: str) -> str:
        """Returns the name of the communicator that fits `device`."""

    @abstractmethod
    def launch_command(self, job: LaunchJob) -> LaunchCommand:
        """Returns the command that starts the ranks with the framework's own launcher.

        Raises:
            DeviceError: The framework is not installed; names the extra that brings it.
        """

    def describe_command(self, request: DescribeRequest) -> LaunchCommand | None:
        """Returns the command that imports a user's class and describes it, in a process of its own.

        The process calls the class once, writes its tensors as `TENSORS_FILE` and a `Description` as
        `DESCRIPTION_FILE`, and exits with 0; what is wrong with the class it writes into the description.

        Returns:
            None, unless overridden: the backend takes no classes of users.

        Raises:
            DeviceError: The framework is not installed.
        """
        return None

    @abstractmethod
    def read_rank(self, device: str) -> RankInfo:
        """Returns who this process is, from what the launcher set; imports no framework.

        Raises:
            ConfigError: No launcher has set anything; says which ones are known.
        """

    @abstractmethod
    def prepare(self, rank: RankInfo, deterministic: bool) -> None:
        """Imports the framework and takes the rank's device.

        Raises:
            DeviceError: The device cannot be used.
        """

    @abstractmethod
    def build_engine(self, request: EngineRequest) -> Engine:
        """Returns the engine of this rank; collective.

        Raises:
            SpecError: The spec has a layer that the backend cannot lower; names it.
        """
