"""What is saved comes back to the last bit, and lies in files that anyone can read."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.checkpoint import Checkpoint, Position, load_checkpoint, save_checkpoint
from core.contracts import TrainingState
from core.errors import PluginError
from tests.checkpoint.samples import SHAPES, SLOTS, assert_same, build_checkpoint


def test_every_bit_comes_back(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "step-00000012", build_checkpoint(12))
    assert_same(load_checkpoint(tmp_path / "step-00000012"), build_checkpoint(12))


def test_odd_values_and_memory_layouts_come_back(tmp_path: Path) -> None:
    odd = np.array([math.nan, -math.nan, math.inf, -0.0, 1e-45, 3.4e38], np.float32)
    turned = np.arange(12, dtype=np.float32).reshape(3, 4).T
    every_other = np.arange(10, dtype=np.float32)[::2]
    parameters = {"odd": odd, "turned": turned, "every_other": every_other}
    save_checkpoint(tmp_path / "step-00000000", Checkpoint(Position(0, 0, 0), TrainingState(parameters)))
    found = load_checkpoint(tmp_path / "step-00000000")
    assert found.state.slots == {}
    for name, array in parameters.items():
        assert found.state.parameters[name].tobytes() == array.tobytes(), name
        assert found.state.parameters[name].flags.writeable


def test_files_are_plain_safetensors_and_strict_json(tmp_path: Path) -> None:
    folder = tmp_path / "step-00000012"
    save_checkpoint(folder, build_checkpoint(12))
    assert sorted(os.listdir(folder)) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    assert load_file(folder / "model.safetensors").keys() == SHAPES.keys()
    moments = load_file(folder / "optimizer.safetensors")
    assert moments.keys() == {f"{slot}.{name}" for slot in SLOTS for name in SHAPES}
    content = json.loads((folder / "state.json").read_text())["content"]
    assert content["position"] == {"epoch": 1, "step_in_epoch": 5, "step": 12}
    assert content["config"]["seed"] == 3
    assert content["files"]["model.safetensors"]["bytes"] == (folder / "model.safetensors").stat().st_size
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1, "one file is less readable than another"


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        save_checkpoint(tmp_path / name, build_checkpoint(12))
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes(), path.name


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    checkpoint = build_checkpoint(1)
    checkpoint.metrics = {"nan": math.nan, "inf": -math.inf, "narrow": np.float32(0.5), "count": 3}
    checkpoint.progress = {"epochs": [{"loss": math.nan}]}
    save_checkpoint(tmp_path / "step-00000001", checkpoint)

    def refuse(name: str) -> None:
        pytest.fail(f"state.json holds {name}, which is not JSON")

    json.loads((tmp_path / "step-00000001" / "state.json").read_text(), parse_constant=refuse)
    found = load_checkpoint(tmp_path / "step-00000001")
    assert found.metrics == {"nan": None, "inf": None, "narrow": 0.5, "count": 3}
    assert found.progress == {"epochs": [{"loss": None}]}


def test_a_tensor_that_is_not_float32_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    checkpoint = build_checkpoint(1)
    checkpoint.state.slots["exp_avg"]["scale"] = np.zeros(())  # type: ignore[assignment]
    with pytest.raises(PluginError, match=r"exp_avg\.scale.*float64.*float32"):
        save_checkpoint(tmp_path / "step-00000001", checkpoint)
    assert os.listdir(tmp_path) == []


def test_neither_a_framework_nor_pickle_is_imported() -> None:
    program = "import sys, core.checkpoint; print(*({'torch', 'mindspore', 'jax', 'hydra'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
    for path in (Path(__file__).parents[2] / "core" / "checkpoint").glob("*.py"):
        assert "import pickle" not in path.read_text(), path
        assert "allow_pickle" not in path.read_text(), path
