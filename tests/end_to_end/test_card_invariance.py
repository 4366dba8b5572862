"""The same loss curve on any number of cards, under any layout."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from core.layout import StepSize, build_flow, step_payloads
from core.models.lenet5 import LeNet5
from core.plugin_system.catalogue import load_catalogue
from core.spec import SampleSpec
from tests.end_to_end.runs import losses, summary, train

pytestmark = pytest.mark.slow
STEPS = 100
# A number within rounding of a ReLU's or a max pool's edge may fall on one side in one layout and on the other in the
# next. Then the runs part by 1e-4 or more though every sum is right: 3 of 30 runs over six seeds did, the others stayed
# below 4e-6. So a layout may have one such seed, and must keep below 1e-4 at the next; a mistake shows at every seed.
SEEDS = (1, 2)
GAP = 1e-4


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    """The losses of one card by seed, each run once."""
    folder = tmp_path_factory.mktemp("reference")

    @functools.cache
    def run(seed: int) -> list[float]:
        name = f"seed{seed}"
        done = train(folder, name, "cards=1", "batch.global=64", f"steps={STEPS}", "log.every_steps=1", f"seed={seed}")
        assert done.returncode == 0, done.stderr
        assert summary(folder / name)["steps"] == STEPS
        return losses(folder / name)

    return run


@pytest.mark.parametrize(
    ("sharder", "cards"),
    [
        *((sharder, cards) for sharder in ("data_parallel", "tensor_parallel", "hybrid") for cards in (2, 4)),
        ("dp_tp", 4),
    ],
)
def test_curve_tensors_and_bytes(
    tmp_path: Path, reference: Callable[[int], list[float]], sharder: str, cards: int
) -> None:
    """Losses within 1e-4 of one card's, live tensors and counted bytes as planned, every sample evaluated once."""
    gaps = []
    for seed in SEEDS:
        run_dir = tmp_path / f"seed{seed}"
        done = train(
            tmp_path,
            run_dir.name,
            "backend=probed",
            f"backend.report={tmp_path}",
            f"sharder={sharder}",
            f"cards={cards}",
            "batch.global=64",
            f"steps={STEPS}",
            "log.every_steps=1",
            f"seed={seed}",
        )
        assert done.returncode == 0, done.stderr
        curve = losses(run_dir)
        assert len(curve) == STEPS
        gaps.append(max(abs(a - b) for a, b in zip(curve, reference(seed), strict=True)))
        if gaps[-1] < GAP:
            break
    print(f"{sharder} on {cards} cards: gaps {gaps}")
    assert gaps[-1] < GAP, gaps
    reports = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(cards)]

    spec = LeNet5(None).spec(SampleSpec((1, 28, 28), 10))
    cls = load_catalogue().get("sharder", sharder)
    layout = cls(cls.Options()).plan(spec, cards)
    for report in reports:
        for parameter in spec.parameters:
            assert tuple(report["live"][parameter.name]) == layout.local_shape(parameter)
        assert report["shapes"] == report["live"]
        assert report["optimizer_bytes"] == 2 * report["bytes"]
        assert not report["has_hydra"], "ranks never import Hydra"
        assert not report["has_dynamo"], "ranks do not pay for torch._dynamo"
        if sharder != "data_parallel":
            for name in ("fc1.weight", "fc2.weight", "fc3.weight"):
                full = next(p for p in spec.parameters if p.name == name)
                parts = full.num_elements / (report["live"][name][0] * report["live"][name][1])
                assert parts == (2 if sharder == "dp_tp" else cards)

    # 100 steps of 64 out of 1,438 samples: 22 whole batches and a short one of 30 in each of the first four epochs;
    # a short batch is padded to a whole one, so it carries as many bytes.
    planned: dict[tuple[str, int], int] = {}
    for payload in step_payloads(spec, layout, build_flow(spec, layout), StepSize(64)):
        key = (payload.collective, payload.group_size)
        planned[key] = planned.get(key, 0) + payload.payload_bytes * STEPS
    for report in reports:
        assert {(name, size): count for name, size, count in report["traffic"]} == planned

    copies = cards // layout.num_batch_shards
    evaluations = sum(1 for epoch in summary(run_dir)["epochs"] if epoch["eval_accuracy"] is not None) + 1
    assert sum(report["eval_labels"] for report in reports) == 359 * copies * evaluations
    assert "(359 samples)" in done.stdout


def test_core_plan_prints_the_same_local_shapes(tmp_path: Path) -> None:
    from tests.commands import run_module

    done = run_module("core.plan", "model=lenet5", "cards=4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in ("30x400", "84x30", "10x21", "all_gather", "reduce_scatter"):
        assert text in done.stdout
