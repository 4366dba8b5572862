"""The text encoder under every layout: one curve, and checkpoints that any layout goes on from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.runs import last_checkpoint, losses, tensors, train

pytestmark = pytest.mark.slow
STEPS, SAVED = 50, 40
GAP = 1e-4
COMMON = (
    "model=bert",
    "model.heads=4",
    "model.dropout=0.1",
    "data=synthetic_text",
    "data.samples=500",
    "batch.global=32",
    f"steps={STEPS}",
    "log.every_steps=1",
    "eval.every_epochs=0",
    f"checkpoint.every_steps={SAVED}",
    "checkpoint.keep=2",
)
LAYOUTS = {
    f"{sharder} on {cards}": (f"sharder={sharder}", f"cards={cards}")
    for sharder in ("tensor_parallel", "dp_tp", "zero1")
    for cards in (2, 4)
}
# Each of their checkpoints is loaded under the other two.
SAVING = ("tensor_parallel on 2", "dp_tp on 4", "zero1 on 2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encoder")


@pytest.fixture(scope="module")
def reference(folder: Path) -> list[float]:
    done = train(folder, "one", *COMMON, "cards=1")
    assert done.returncode == 0, done.stderr
    curve = losses(folder / "one")
    assert len(curve) == STEPS
    assert sum(curve[-5:]) < sum(curve[:5]), "it learns"
    return curve


@pytest.fixture(scope="module")
def runs(folder: Path) -> Callable[[str], Path]:
    """Runs by layout, each made when it is first asked for."""
    made: dict[str, Path] = {}

    def run(layout: str) -> Path:
        if layout not in made:
            done = train(folder, layout.replace(" ", "_"), *COMMON, *LAYOUTS[layout])
            assert done.returncode == 0, done.stderr
            made[layout] = folder / layout.replace(" ", "_")
        return made[layout]

    return run


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_curve_is_that_of_one_card(runs: Callable[[str], Path], reference: list[float], layout: str) -> None:
    curve = losses(runs(layout))
    gap = max(abs(a - b) for a, b in zip(curve, reference, strict=True))
    print(f"{layout}: gap {gap:.1e}")
    assert gap < GAP


@pytest.mark.parametrize("layout", SAVING)
def test_its_checkpoint_goes_on_under_every_other_layout(
    runs, reference: list[float], folder: Path, layout: str
) -> None:
    saved = runs(layout) / "checkpoints" / f"step-{SAVED:08d}"
    moments = tensors(saved)
    assert len(moments) == 3 * len([name for name in moments if not name.startswith("exp_avg")])
    for other in SAVING:
        if other == layout:
            continue
        name = f"{layout}_then_{other}".replace(" ", "_")
        done = train(folder, name, *COMMON, *LAYOUTS[other], f"resume={saved}")
        assert done.returncode == 0, done.stderr
        rest = losses(folder / name)
        assert len(rest) == STEPS - SAVED
        assert max(abs(a - b) for a, b in zip(rest, reference[SAVED:], strict=True)) < GAP, other
    assert last_checkpoint(runs(layout)).name == f"step-{STEPS:08d}"
