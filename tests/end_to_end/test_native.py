"""A user's own module: the same curve on any number of cards, exact resume, and checkpoints that it can load itself."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.checkpoint import load_checkpoint
from core.spec import SampleSpec
from tests.commands import ROOT, run_module
from tests.end_to_end.runs import last_checkpoint, losses, tensors, train

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

pytestmark = pytest.mark.slow

FEW = ("batch.global=64", "log.every_steps=1", "backend.threads=1")
EXAMPLE = ROOT / "examples" / "native_torch" / "my_model.py"
NATIVE = ("model=native", "model.arguments={width:6}")


def beside(folder: Path, source: Path, name: str) -> None:
    """Copies a module into a folder, where a user would have it."""
    (folder / name).write_text(source.read_text())


def test_one_curve_on_one_and_two_cards(tmp_path: Path) -> None:
    beside(tmp_path, ROOT / "tests" / "native" / "user_models.py", "mine.py")
    target = ("model=native", "model.target.torch_npu=mine:Plain")
    for arguments in (("one", "cards=1"), ("two", "cards=2", "sharder=zero1")):
        done = train(tmp_path, *arguments, *target, *FEW, "steps=30", "eval.every_epochs=0", "clip_norm=1")
        assert done.returncode == 0, done.stdout + done.stderr
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert len(one) == 30
    assert one[-1] < one[0] - 0.2
    assert max(abs(a - b) for a, b in zip(one, two, strict=True)) < 1e-4


def test_resume_is_exact_with_batch_norm_and_dropout_and_the_module_loads_it(tmp_path: Path) -> None:
    """The cut is inside an epoch, which ends (23 steps of 64) with a short batch."""
    beside(tmp_path, EXAMPLE, "my_model.py")
    common = ("backend=probed", "+model.target.probed=my_model:SmallResNet", "cards=2", *NATIVE, *FEW)
    report = tmp_path / "report"
    report.mkdir()
    for arguments in (
        ("whole", "steps=26", f"backend.report={report}"),
        ("cut", "steps=11", "eval.every_epochs=0"),
        ("cut", "steps=26", "resume=auto", "eval.every_epochs=0"),
    ):
        done = train(tmp_path, *arguments, *common)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "one card's rows alone" in done.stdout
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    folder = last_checkpoint(tmp_path / "whole")
    whole, cut = tensors(folder), tensors(last_checkpoint(tmp_path / "cut"))
    assert whole.keys() == cut.keys()
    for name, array in whole.items():
        assert np.array_equal(array, cut[name]), name
    assert whole["blocks.0.bn1.num_batches_tracked"] == 26
    _assert_traffic_is_planned(tmp_path, report, num_steps=26)
    _assert_the_plain_module_gives_the_same_logits(tmp_path, folder)


def _assert_traffic_is_planned(tmp_path: Path, report: Path, num_steps: int) -> None:
    """Four batch norms of six channels count in int64; their statistics and all gradients are summed in float32."""
    traffic = {key: size for key, _, size in json.loads((report / "rank0.json").read_text())["traffic"]}
    parameters = load_file(tmp_path / "whole" / "module.safetensors")
    moving = [name for name in parameters if "running" in name]
    gradients = [name for name in parameters if "running" not in name and "tracked" not in name]
    assert traffic["all_gather"] == num_steps * 4 * 8 * 2
    assert traffic["all_reduce"] == num_steps * 4 * sum(parameters[name].size for name in (*moving, *gradients))
    done = run_module(
        "core.plan", "device=cpu", "cards=2", "model.target.torch_npu=my_model:SmallResNet", *NATIVE, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "unknown: a class of your own" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["all_reduce"]]
    assert num_steps * sum(int(row[4].replace(",", "")) for row in rows) == traffic["all_reduce"]


def _assert_the_plain_module_gives_the_same_logits(tmp_path: Path, folder: Path) -> None:
    from core.contracts import SGD
    from tests.native.described import described
    from tests.torch_npu_backend.single_card import build_engine

    spec = importlib.util.spec_from_file_location("plain_model", EXAMPLE)
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    module = plain.SmallResNet(width=6)
    stored = load_file(folder / "model.safetensors")
    module.load_state_dict({name: torch.from_numpy(array) for name, array in stored.items()}, strict=True)
    target = "examples.native_torch.my_model:SmallResNet"
    engine = build_engine(described(tmp_path / "described", target, SampleSpec((1, 28, 28), 10), width=6), SGD())
    state = load_checkpoint(folder).state
    state.slots.clear()
    engine.load(state)
    images = torch.rand(16, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(module.eval()(images), engine._model.eval()(images))


def test_an_unfit_module_ends_the_command_before_ranks_start(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import absent_library\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    done: subprocess.CompletedProcess[str] = train(tmp_path, "run", "model=native", "model.target.torch_npu=mine:Model")
    assert done.returncode == 2
    assert "'mine:Model' cannot be imported" in done.stderr
    assert "mine.py:1 in <module>: import absent_library" in done.stderr
    assert "Traceback" not in done.stderr
    assert "starting" not in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == before
