"""Bytes that one training step puts on the wire."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from core.layout.buckets import DEFAULT_BUCKET_MB, FP32_BYTES, Bucket, gradient_buckets
from core.layout.flow import Flow
from core.layout.layout import Layout
from core.layout.transition import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, IDENTITY, REDUCE_SCATTER, SLICE
from core.spec import INPUT, BatchNorm2d, ModelSpec, Native

GRADIENTS, ACTIVATIONS, STATISTICS, NORM, WEIGHTS = "gradients", "activations", "statistics", "norm", "weights"

INT64_BYTES = 8


@dataclass(frozen=True)
class Payload:
    """What one collective of a step carries.

    Attributes:
        collective: all_reduce, all_gather, reduce_scatter or all_to_all.
        purpose: gradients, activations, statistics (of batch norm), norm (of the gradients) or weights.
        axes: The axes along which the cards that take part differ.
        group_size: Number of cards that take part.
        payload_bytes: Size of the full tensor that is reduced, gathered, scattered or exchanged within one group.
    """

    collective: str
    purpose: str
    axes: tuple[str, ...]
    group_size: int
    payload_bytes: int


@dataclass(frozen=True)
class StepSize:
    """What a step's bytes depend on beside spec and layout.

    Attributes:
        global_batch: Samples in one update.
        shards: Parts of the batch whose sums are taken in order on any number of cards; None for any order.
        accumulate: Parts in which each rank runs its rows.
        clips: Whether gradients are clipped by their norm, to which every shard of them adds its own.
        bucket_mb: Gradients travel in buckets of about so many MiB.
        gradient_bytes: Of one gradient on the wire: 4, or 2 when compressed.
        activation_bytes: Of one number of an activation on the wire; token ids always take 4.
    """

    global_batch: int
    shards: int | None = None
    accumulate: int = 1
    clips: bool = False
    bucket_mb: float = DEFAULT_BUCKET_MB
    gradient_bytes: int = FP32_BYTES
    activation_bytes: int = FP32_BYTES


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


def step_payloads(spec: ModelSpec, layout: Layout, flow: Flow, size: StepSize) -> tuple[Payload, ...]:
    """Returns what one step carries; gradients in the order in which the backward pass fills their buckets."""
    found = [
        *_norm_payloads(layout, size),
        *_activation_payloads(spec, layout, flow, size),
        *_statistics_payloads(spec, layout, size),
        *_gradient_payloads(spec, layout, flow, size),
    ]
    return tuple(payload for payload in found if payload.group_size > 1)


def _norm_payloads(layout: Layout, size: StepSize) -> Iterator[Payload]:
    axes = (*layout.sharded_axes, *layout.state_axes)
    if size.clips and axes:
        yield _over(layout, axes, ALL_REDUCE, NORM, FP32_BYTES)


def _activation_payloads(spec: ModelSpec, layout: Layout, flow: Flow, size: StepSize) -> Iterator[Payload]:
    for name, move, shape in flow.transitions:
        others = math.prod(
            layout.mesh.size(axis) for axis in layout.batch_axes if axis != move.axis
        )  # the batch stays cut over the other axes
        is_tokens = name == INPUT and spec.sample.vocabulary is not None
        number = FP32_BYTES if is_tokens else size.activation_bytes
        full = math.prod(shape) * (size.global_batch // others) * number
        for collective in (move.forward, move.backward):
            if collective not in (IDENTITY, SLICE):
                yield _over(layout, (move.axis,), collective, ACTIVATIONS, full)


def _statistics_payloads(spec: ModelSpec, layout: Layout, size: StepSize) -> Iterator[Payload]:
    """Yields, for a batch norm over all parts, the gathering of two numbers a channel and the sum of two in return; for
    those over one part's rows, what averages their running statistics.
    """
    axes = tuple(axis for axis in layout.batch_axes if layout.mesh.size(axis) > 1)
    if not axes:
        return
    local = 0
    yield from _buffer_payloads(spec, layout, axes)
    for layer in spec.layers:
        if not isinstance(layer, BatchNorm2d):
            continue
        pair = 2 * layer.num_features * FP32_BYTES
        if not layer.synchronized:
            local += pair
            continue
        own = pair * (size.shards or layout.num_batch_shards) // layout.num_batch_shards
        for _ in range(size.accumulate):
            yield from _gathering(layout, axes, own, STATISTICS)
            if size.shards is None:
                yield _over(layout, axes, ALL_REDUCE, STATISTICS, pair)
            else:
                yield from _gathering(layout, axes, own, STATISTICS)
    if local:
        yield _over(layout, axes, ALL_REDUCE, STATISTICS, local * size.accumulate)


def _buffer_payloads(spec: ModelSpec, layout: Layout, axes: tuple[str, ...]) -> Iterator[Payload]:
    """Yields what brings the buffers of users' classes together: a sum for each format of floating-point numbers, and
    the gathering of all integers as int64.
    """
    moving = [buffer for layer in spec.layers if isinstance(layer, Native) for buffer in layer.moving]
    floats = [buffer for buffer in moving if buffer.dtype.startswith("float")]
    for dtype in dict.fromkeys(buffer.dtype for buffer in floats):
        size = sum(buffer.num_bytes for buffer in floats if buffer.dtype == dtype)
        yield _over(layout, axes, ALL_REDUCE, STATISTICS, size)
    integers = sum(buffer.num_elements for buffer in moving if buffer not in floats)
    if integers:
        yield from _gathering(layout, axes, integers * INT64_BYTES, STATISTICS)


def _gradient_payloads(spec: ModelSpec, layout: Layout, flow: Flow, size: StepSize) -> Iterator[Payload]:
    for bucket in gradient_buckets(spec, layout, flow, size.bucket_mb):
        carried = bucket.num_elements * size.gradient_bytes
        if size.shards is not None:
            yield from _ordered_sum(layout, bucket, size)
        elif layout.state_axes:
            yield _over(layout, bucket.axes, REDUCE_SCATTER, GRADIENTS, carried)
        elif bucket.axes:
            yield _over(layout, bucket.axes, ALL_REDUCE, GRADIENTS, carried)
        if layout.state_axes:
            yield _over(layout, bucket.axes, ALL_GATHER, WEIGHTS, bucket.num_bytes)


def _ordered_sum(layout: Layout, bucket: Bucket, size: StepSize) -> Iterator[Payload]:
    """Yields what sums a bucket in the order of the cards: each gets the terms of its part and gives away the sums."""
    number = size.gradient_bytes
    for axis in reversed(bucket.axes):
        cards = layout.mesh.size(axis)
        padded = -(-bucket.num_elements // cards) * cards
        yield _over(layout, (axis,), ALL_TO_ALL, GRADIENTS, padded * number * cards)
        yield _over(layout, (axis,), ALL_GATHER, GRADIENTS, padded * FP32_BYTES)
        number = FP32_BYTES


def _gathering(layout: Layout, axes: Iterable[str], own: int, purpose: str) -> Iterator[Payload]:
    """Yields what gathers every card's `own` bytes along `axes`, one axis after the other."""
    for axis in axes:
        own *= layout.mesh.size(axis)
        yield _over(layout, (axis,), ALL_GATHER, purpose, own)


def _over(layout: Layout, axes: tuple[str, ...], collective: str, purpose: str, payload_bytes: int) -> Payload:
    """Returns a collective over the groups along `axes`."""
    cards = math.prod(layout.mesh.size(axis) for axis in axes)
    return Payload(collective, purpose, axes, cards, payload_bytes)


def total_wire_bytes(payloads: Iterable[Payload]) -> float:
    """Returns the bytes that each card sends for all of `payloads`."""
    return sum(wire_bytes(p.collective, p.group_size, p.payload_bytes) for p in payloads)
