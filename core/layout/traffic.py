"""Bytes that one training step puts on the wire."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from core.layout.flow import Flow
from core.layout.layout import Layout
from core.layout.transition import ALL_REDUCE, IDENTITY, SLICE
from core.spec import ModelSpec

FP32_BYTES = 4


@dataclass(frozen=True)
class Payload:
    """What one collective of a step carries.

    Attributes:
        collective: all_reduce, all_gather, reduce_scatter or all_to_all.
        purpose: "gradients", "activations" or "norm".
        group_size: Number of cards that take part.
        payload_bytes: Size of the full tensor that is reduced, gathered, scattered or exchanged within one group.
    """

    collective: str
    purpose: str
    group_size: int
    payload_bytes: int


def wire_bytes(collective: str, group_size: int, payload_bytes: int) -> float:
    """Returns the bytes that each card sends, for the algorithm that is optimal in bytes.

    Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005: an
    all-reduce is a reduce-scatter and an all-gather, each of which sends (p - 1) / p of the tensor; an all-to-all
    sends (p - 1) / p of the card's own part.
    """
    part = (group_size - 1) / group_size * payload_bytes
    match collective:
        case "all_reduce":
            return 2 * part
        case "all_gather" | "reduce_scatter":
            return part
        case "all_to_all":
            return part / group_size
    raise AssertionError(collective)


def step_payloads(
    spec: ModelSpec, layout: Layout, flow: Flow, global_batch: int, clips: bool = False
) -> tuple[Payload, ...]:
    """Returns what one step of `global_batch` samples carries, fp32, gradients not compressed.

    Args:
        spec: The model.
        layout: Where its tensors lie.
        flow: The collectives that follow.
        global_batch: Samples in one step, however many parts it is run in.
        clips: Whether gradients are clipped by their norm, to which every shard adds its own.
    """
    payloads: list[Payload] = []
    if clips and layout.sharded_axes:
        size = math.prod(layout.mesh.size(axis) for axis in layout.sharded_axes)
        payloads.append(Payload(ALL_REDUCE, "norm", size, FP32_BYTES))
    for move, shape in flow.transitions:
        size = layout.mesh.size(move.axis)
        others = math.prod(
            layout.mesh.size(axis) for axis in layout.batch_axes if axis != move.axis
        )  # the batch stays cut over the other axes
        full = math.prod(shape) * (global_batch // others) * FP32_BYTES
        payloads += [
            Payload(collective, "activations", size, full)
            for collective in (move.forward, move.backward)
            if collective not in (IDENTITY, SLICE)
        ]
    payloads += [
        Payload(
            ALL_REDUCE,
            "gradients",
            math.prod(layout.mesh.size(axis) for axis in axes),
            math.prod(layout.local_shape(parameter)) * FP32_BYTES,
        )
        for parameter in spec.parameters
        if (axes := flow.gradient_axes[parameter.name])
    ]
    return tuple(payload for payload in payloads if payload.group_size > 1)


def total_wire_bytes(payloads: Iterable[Payload]) -> float:
    """Returns the bytes that each card sends for all of `payloads`."""
    return sum(wire_bytes(p.collective, p.group_size, p.payload_bytes) for p in payloads)
