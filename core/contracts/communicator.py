"""The contract of a communicator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from core.contracts.options import Plugged
from core.errors import ConfigError
from core.layout import Mesh
from core.layout.buckets import DEFAULT_BUCKET_MB

if TYPE_CHECKING:
    from core.contracts.backend import RankInfo

Tensor = TypeVar("Tensor")


class Compression(Enum):
    """The number format in which gradients travel."""

    none = "none"
    fp16 = "fp16"
    bf16 = "bf16"

    @property
    def gradient_bytes(self) -> int:
        """Bytes of one gradient on the wire."""
        return 4 if self is Compression.none else 2


@dataclass(kw_only=True)
class CommunicatorOptions:
    """The options of every communicator."""

    bucket_mb: float = DEFAULT_BUCKET_MB  # MiB; gradients travel in buckets of about this size
    compress: Compression = Compression.none  # fp16 and bf16 halve the bytes and round the gradients
    algorithm: str = "auto"  # the library's collective algorithm; auto leaves the choice to it
    timeout_s: float = 600.0  # seconds until a collective that a peer does not join is an error

    def __post_init__(self) -> None:
        if self.bucket_mb <= 0:
            raise ConfigError("'communicator.bucket_mb' is out of range.", received=self.bucket_mb, allowed="above 0")
        if self.timeout_s <= 0:
            raise ConfigError("'communicator.timeout_s' is out of range.", received=self.timeout_s, allowed="above 0")


class Communicator(Plugged, ABC, Generic[Tensor]):
    """Collectives among the cards of a mesh.

    System rules: made in the parent to ask for `environment`, and once on each rank. `open` comes first and `close`
    last. All methods but `environment` are collective over the named axes: every rank of a group calls them in the same
    order with tensors of the same shape and dtype. Tensors are the framework's own, on the rank's device; arguments are
    not changed unless said so. A group's members are ordered by rank.

    Attributes:
        devices: The device kinds that it can serve.
        payload_bytes: Bytes carried so far, by (collective, group size), counted as `core.layout.traffic` counts them.
            `agree` and `barrier` are not counted: they are not part of a step.
    """

    Options: ClassVar[type] = CommunicatorOptions
    devices: ClassVar[tuple[str, ...]]

    def __init__(self, options: CommunicatorOptions) -> None:
        super().__init__(options)
        self.payload_bytes: Counter[tuple[str, int]] = Counter()

    @abstractmethod
    def environment(self, deterministic: bool, peer: str | None = None) -> dict[str, str]:
        """Returns the variables that must be set before a rank starts; imports no framework.

        Args:
            deterministic: Whether the same bits are wanted each time.
            peer: A host that this machine reaches by the network that the ranks share; None when all are on it.

        Raises:
            CommunicatorError: `algorithm` is none that the library offers.
        """

    @abstractmethod
    def open(self, mesh: Mesh, rank: RankInfo) -> None:
        """Joins the other ranks and makes a group for every axis and for all axes that split a tensor together."""

    @abstractmethod
    def all_reduce(self, tensor: Tensor, axes: tuple[str, ...]) -> Any:
        """Starts summing `tensor` in place over `axes`; returns a handle whose `wait()` ends it."""

    @abstractmethod
    def all_gather(self, tensor: Tensor, axis: str, dim: int) -> Tensor:
        """Returns the tensors of the group joined along `dim`."""

    @abstractmethod
    def reduce_scatter(self, tensor: Tensor, axis: str, dim: int) -> Tensor:
        """Returns this rank's part, along `dim`, of the sum over the group."""

    @abstractmethod
    def all_to_all(self, tensor: Tensor, axis: str, gather_dim: int, cut_dim: int) -> Tensor:
        """Cuts `tensor` along `cut_dim`, sends part i to member i, returns what came in joined along `gather_dim`."""

    @abstractmethod
    def agree(self, values: npt.NDArray[np.float64], op: str) -> npt.NDArray[np.float64]:
        """Returns the element-wise "sum", "max" or "min" of a host array over all ranks."""

    @abstractmethod
    def barrier(self) -> None:
        """Returns when every rank has called it."""

    @abstractmethod
    def close(self) -> None:
        """Leaves the groups."""
