"""Times in closed form: one collective, one step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.config.assembly import build_step_size
from core.contracts import SGD, Precision, StepSpec
from core.contracts.communicator import CommunicatorOptions
from core.layout import Axis, Mesh, Payload, build_flow
from core.planning.communication import collective_seconds
from core.planning.hardware import Flops, Hardware, Link
from core.planning.step_time import StepTime, card_flops, step_time
from core.sharders.data_parallel import DataParallel
from core.sharders.dp_tp import DpTp, DpTpOptions
from core.sharders.hybrid import Hybrid
from core.sharders.tensor_parallel import TensorParallel
from core.sharders.zero1 import Zero1
from core.spec import Flatten, Linear, ModelSpec, ReLU, SampleSpec
from tests.models.small import small_models

HARDWARE = Hardware(
    name="test",
    flops_per_s=Flops(fp32=1e9, amp_bf16=4e9, amp_fp16=8e9),
    efficiency=0.5,
    memory_bytes=2**30,
    cards_per_machine=4,
    inside=Link(bandwidth_bytes_per_s=2e6, latency_s=1e-3, efficiency=0.5),
    between=Link(bandwidth_bytes_per_s=1e5, latency_s=1e-2),
)
FREE = replace(
    HARDWARE,
    inside=Link(bandwidth_bytes_per_s=1e30, latency_s=0.0),
    between=Link(bandwidth_bytes_per_s=1e30, latency_s=0.0),
)
# 64 x 32 and 32 x 8 weights: 4,608 operations a sample.
SPEC = ModelSpec("m", SampleSpec((8, 8), 8), (Flatten("f"), Linear("a", 64, 32), ReLU("r"), Linear("b", 32, 8)))
PARAMETERS = 64 * 32 + 32 + 32 * 8 + 8


def seconds(collective: str, mesh: Mesh, *axes: str, num_bytes: int = 8000, hardware: Hardware = HARDWARE) -> float:
    cards = 1
    for axis in axes:
        cards *= mesh.size(axis)
    return collective_seconds(Payload(collective, "gradients", axes, cards, num_bytes), mesh, hardware)


def line(cards: int) -> Mesh:
    return Mesh((Axis("dp", cards),))


@pytest.mark.parametrize(
    ("collective", "cards", "expected"),
    [
        ("all_reduce", 2, 2 * (1e-3 + 4000 / 1e6)),
        ("all_reduce", 4, 6 * (1e-3 + 2000 / 1e6)),
        ("all_gather", 2, 1 * (1e-3 + 4000 / 1e6)),
        ("all_gather", 4, 3 * (1e-3 + 2000 / 1e6)),
        ("reduce_scatter", 4, 3 * (1e-3 + 2000 / 1e6)),
        ("all_to_all", 4, 3 * (1e-3 + 500 / 1e6)),
    ],
)
def test_a_ring_in_one_machine(collective: str, cards: int, expected: float) -> None:
    assert seconds(collective, line(cards), "dp") == pytest.approx(expected)


def test_an_all_reduce_over_machines_is_hierarchical() -> None:
    """Eight cards in two machines: parts of 2,000 bytes in each, each part all-reduced between two cards."""
    inside, between = 3 * (1e-3 + 2000 / 1e6), 2 * (1e-2 + 1000 / 1e5)
    assert seconds("all_reduce", line(8), "dp") == pytest.approx(2 * inside + between)


def test_what_is_no_all_reduce_or_lies_unevenly_takes_the_slower_link() -> None:
    assert seconds("all_gather", line(8), "dp") == pytest.approx(7 * (1e-2 + 1000 / 1e5))
    assert seconds("all_reduce", line(6), "dp") == pytest.approx(10 * (1e-2 + 8000 / 6 / 1e5))


def test_groups_of_an_inner_axis_stay_in_a_machine_and_those_of_an_outer_one_do_not() -> None:
    mesh = Mesh((Axis("dp", 4), Axis("tp", 2)))
    assert seconds("all_reduce", mesh, "tp") == pytest.approx(2 * (1e-3 + 4000 / 1e6))
    expected = 2 * (1e-3 + 4000 / 1e6) + 2 * (1e-2 + 2000 / 1e5)  # two of a group's four cards on each machine
    assert seconds("all_reduce", mesh, "dp") == pytest.approx(expected)


def test_the_slowest_group_counts() -> None:
    """Of two groups of three cards the second lies over both machines."""
    mesh = Mesh((Axis("dp", 2), Axis("tp", 3)))
    assert seconds("all_reduce", mesh, "tp") == pytest.approx(4 * (1e-2 + 8000 / 3 / 1e5))


def time(
    sharder: Any, cards: int, batch: int, hardware: Hardware = HARDWARE, bucket_mb: float = 25.0, **step: Any
) -> StepTime:
    layout = sharder.plan(SPEC, cards)
    spec = StepSpec(SGD(), **step)
    size = build_step_size(spec, CommunicatorOptions(bucket_mb=bucket_mb), batch)
    return step_time(SPEC, layout, build_flow(SPEC, layout), spec, size, hardware)


def test_one_card_computes_and_does_not_communicate() -> None:
    for sharder in (DataParallel(None), TensorParallel(None), Hybrid(None), Zero1(None)):
        assert time(sharder, 1, 100) == StepTime(3 * 4608 * 100 / 0.5e9, 0.0)
    assert time(DataParallel(None), 1, 100, precision=Precision.amp_fp16).compute_s == 3 * 4608 * 100 / 4e9


def test_one_bucket_is_not_hidden() -> None:
    found = time(DataParallel(None), 4, 400)
    assert found.compute_s == pytest.approx(3 * 4608 * 100 / 0.5e9)
    assert found.exposed_s == pytest.approx(6 * (1e-3 + PARAMETERS / 1e6))


def test_buckets_but_the_last_hide_behind_the_backward_pass() -> None:
    """Three buckets: b's bias and weight, a's bias with it, and a's weight, the last."""
    last = 2 * (1e-3 + 64 * 32 * 4 / 2 / 1e6)
    big = time(DataParallel(None), 2, 10**6, bucket_mb=0.002)
    assert big.exposed_s == pytest.approx(last)
    small = time(DataParallel(None), 2, 2, bucket_mb=0.002)
    backward = 2 * 4608 / 0.5e9
    assert small.exposed_s == pytest.approx(last + 2 * (1e-3 + (PARAMETERS - 2048) * 4 / 2 / 1e6) - backward)


def test_zero1_and_ordered_sums_hide_nothing() -> None:
    sent = 3 * (1e-3 + PARAMETERS / 1e6)
    assert time(Zero1(None), 4, 10**6).exposed_s == pytest.approx(2 * sent)  # gradients scattered, weights gathered
    ordered = time(DataParallel(None), 4, 10**6, shards=4)
    assert ordered.exposed_s == pytest.approx(2 * sent)  # terms exchanged, sums gathered


def test_tensor_parallelism_waits_for_each_part_of_the_rows() -> None:
    """One all-reduce of the logits, (rows, 8), for each part."""
    for parts in (1, 5):
        found = time(TensorParallel(None), 2, 100, accumulate=parts)
        assert found.exposed_s == pytest.approx(parts * 2 * (1e-3 + 100 / parts * 8 * 4 / 2 / 1e6))


@pytest.mark.parametrize("model", small_models())
@pytest.mark.parametrize(
    "sharder", [DataParallel(None), TensorParallel(None), Hybrid(None), DpTp(DpTpOptions()), Zero1(None)]
)
def test_cards_share_the_work_of_what_is_cut(model: str, sharder: Any) -> None:
    spec = small_models()[model]
    layout = sharder.plan(spec, 4)
    found = card_flops(layout, build_flow(spec, layout), 64)
    if layout.num_batch_shards == 4:
        assert found == pytest.approx(spec.flops * 64 / 4)
    else:
        assert spec.flops * 64 / 4 <= found < spec.flops * 64


def test_times_grow_with_what_they_depend_on() -> None:
    weak = [time(DataParallel(None), cards, 100 * cards).total_s for cards in (1, 2, 4, 8, 16, 64)]
    assert weak == sorted(weak)
    computing = [time(DataParallel(None), cards, 6400).compute_s for cards in (1, 2, 4, 8, 16, 64)]
    assert computing == sorted(computing, reverse=True)
    assert [time(DataParallel(None), cards, 100 * cards, hardware=FREE).exposed_s < 1e-9 for cards in (2, 64)] == [
        True
    ] * 2
    halved = replace(HARDWARE, efficiency=0.25)
    assert time(DataParallel(None), 4, 100, halved).compute_s == 2 * time(DataParallel(None), 4, 100).compute_s
