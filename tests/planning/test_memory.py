"""Memory of one card in closed form; tests/torch_npu_backend/test_plan.py measures it."""

from __future__ import annotations

from dataclasses import replace

from core.contracts import SGD, Adam, StepSpec
from core.layout import build_flow
from core.planning.memory import CardMemory, card_memory
from core.sharders.data_parallel import DataParallel
from core.sharders.zero1 import Zero1
from core.spec import BatchNorm2d, GlobalAvgPool2d, Linear, ModelSpec, SampleSpec

# 3 + 3 of the norm, 15 + 5 of the linear layer; 6 running statistics.
SPEC = ModelSpec("m", SampleSpec((3, 4, 4), 5), (BatchNorm2d("n", 3), GlobalAvgPool2d("p"), Linear("l", 3, 5)))


def memory(sharder: type, cards: int, step: StepSpec) -> CardMemory:
    layout = sharder(None).plan(SPEC, cards)
    return card_memory(SPEC, layout, build_flow(SPEC, layout), step)


def test_data_parallel_holds_everything_on_every_card() -> None:
    for cards in (1, 4):
        found = memory(DataParallel, cards, StepSpec(Adam()))
        assert found == CardMemory(weights=104, gradients=104, optimizer=208, buffers=24, average=0)
        assert found.total == 440
    assert memory(DataParallel, 1, StepSpec(SGD())).optimizer == 104 * len(SGD.slots)


def test_an_average_is_one_more_set_of_weights() -> None:
    assert memory(DataParallel, 1, StepSpec(SGD(), ema_decay=0.9)).average == 104


def test_zero1_pads_its_flat_tensors_and_keeps_a_piece() -> None:
    """26 numbers on four cards make pieces of 7."""
    found = memory(Zero1, 4, StepSpec(Adam(), ema_decay=0.9))
    assert found == CardMemory(weights=112, gradients=112 + 28, optimizer=2 * 28, buffers=24, average=104)
    assert memory(Zero1, 1, StepSpec(Adam())) == memory(DataParallel, 1, StepSpec(Adam()))


def test_each_part_of_the_batch_on_a_card_has_gradients_of_its_own() -> None:
    step = StepSpec(Adam(), shards=4)
    assert memory(DataParallel, 2, step) == replace(memory(DataParallel, 2, StepSpec(Adam())), gradients=2 * 104)
    assert memory(Zero1, 2, step).gradients == 2 * 104 + 52
