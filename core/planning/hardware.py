"""What a card can do, and the links between cards: the config group hardware/, of core.plan alone."""

from __future__ import annotations

from dataclasses import dataclass

from core.config.schema import require
from core.contracts import Precision


@dataclass(kw_only=True)
class Flops:
    """Floating-point operations of matrix products a second, by precision."""

    fp32: float
    amp_bf16: float
    amp_fp16: float


@dataclass(kw_only=True)
class Link:
    """What a card sends over, in the model of Hockney: latency and bytes over bandwidth.

    Source: Hockney 1994, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20.
    """

    bandwidth_bytes_per_s: float  # that one card sends, in one direction
    latency_s: float  # of one message
    efficiency: float = 1.0  # fraction of the bandwidth that a collective reaches

    def __post_init__(self) -> None:
        require(self.bandwidth_bytes_per_s > 0, "hardware bandwidth", self.bandwidth_bytes_per_s, "above 0")
        require(self.latency_s >= 0, "hardware latency", self.latency_s, "at least 0")
        require(0 < self.efficiency <= 1, "hardware link efficiency", self.efficiency, "a number in (0, 1]")

    def seconds(self, num_bytes: float) -> float:
        """Returns how long one message takes."""
        return self.latency_s + num_bytes / (self.bandwidth_bytes_per_s * self.efficiency)


@dataclass(kw_only=True)
class Hardware:
    """One kind of card, in machines of several."""

    name: str
    flops_per_s: Flops
    efficiency: float  # fraction of flops_per_s that training reaches: an assumption
    memory_bytes: int  # of one card
    cards_per_machine: int
    inside: Link  # between cards of one machine
    between: Link  # between machines, for each card

    def __post_init__(self) -> None:
        require(0 < self.efficiency <= 1, "hardware.efficiency", self.efficiency, "a number in (0, 1]")
        require(self.memory_bytes > 0, "hardware.memory_bytes", self.memory_bytes, "above 0")
        require(self.cards_per_machine >= 1, "hardware.cards_per_machine", self.cards_per_machine, "at least 1")

    def rate(self, precision: Precision) -> float:
        """Returns the operations a second that training reaches."""
        peak: float = getattr(self.flops_per_s, precision.value)
        return peak * self.efficiency
