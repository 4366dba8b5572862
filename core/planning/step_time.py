"""How long one step takes, by a model that leaves much out: it compares numbers of cards, it does not promise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.contracts import StepSpec
from core.layout import Flow, LayerStep, Layout, Payload, Replicate, StepSize, step_payloads
from core.layout.traffic import ACTIVATIONS, GRADIENTS
from core.layout.transition import ALL_REDUCE
from core.planning.communication import collective_seconds
from core.planning.hardware import Hardware
from core.spec import ModelSpec

PASSES = 3  # a backward pass costs two forward passes: gradients of inputs and of weights


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step.

    Attributes:
        compute_s: Products of the forward and backward passes on one card.
        exposed_s: Communication during which a card does nothing else.
    """

    compute_s: float
    exposed_s: float

    @property
    def total_s(self) -> float:
        return self.compute_s + self.exposed_s


def step_time(
    spec: ModelSpec, layout: Layout, flow: Flow, step: StepSpec, size: StepSize, hardware: Hardware
) -> StepTime:
    """Returns the time of one step.

    Computing is 3 times the forward pass's products of the card's part, at the hardware's rate. All-reduced gradients
    travel while the (last) backward pass goes on, for as long as it lasts, save the last bucket, which is full when the
    pass ends. All else waits: activations, statistics, norms; under zero1 and batch.shards also gradients and weights.
    Left out are element-wise layers, the update, the input, and what starting a kernel costs.
    """
    compute_s = PASSES * card_flops(layout, flow, size.global_batch) / hardware.rate(step.precision)
    backward_s = compute_s * (PASSES - 1) / PASSES / step.accumulate
    buckets, exposed_s = [], 0.0
    for payload in step_payloads(spec, layout, flow, size):
        if payload.purpose == GRADIENTS and payload.collective == ALL_REDUCE:
            buckets.append(collective_seconds(payload, layout.mesh, hardware))
        else:
            exposed_s += _waiting_s(payload, layout, size, hardware)
    if buckets:
        exposed_s += buckets[-1] + max(0.0, sum(buckets[:-1]) - backward_s)
    return StepTime(compute_s, exposed_s)


def card_flops(layout: Layout, flow: Flow, global_batch: int) -> float:
    """Returns the operations of one forward pass on one card; layers that cards share are divided among them."""
    return sum(place.bound.flops * global_batch / _sharers(place, layout) for place in flow.steps)


def _sharers(place: LayerStep, layout: Layout) -> int:
    """Returns among how many cards a layer is divided: by the batch, the features or its weight."""
    parameters = place.bound.layer.parameters()
    whole = (Replicate(),) * len(layout.mesh.axes)
    weight = layout.parameters[parameters[0].name] if parameters else whole
    rows = zip(layout.mesh.axes, place.placements, weight, strict=True)
    return math.prod(axis.size for axis, output, cut in rows if output != Replicate() or cut != Replicate())


def _waiting_s(payload: Payload, layout: Layout, size: StepSize, hardware: Hardware) -> float:
    """Returns the time of a collective that nothing hides; activations travel once for each part of a card's rows."""
    if payload.purpose != ACTIVATIONS:
        return collective_seconds(payload, layout.mesh, hardware)
    times = size.accumulate
    part = Payload(
        payload.collective, payload.purpose, payload.axes, payload.group_size, payload.payload_bytes // times
    )
    return times * collective_seconds(part, layout.mesh, hardware)
