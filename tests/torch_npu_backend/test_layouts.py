"""Every layout of every chain of linear layers trains as one card does, and moves the bytes that were planned."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.commands import ROOT

pytest.importorskip("torch", reason="the backend's framework is an extra")
pytestmark = pytest.mark.slow


def run(sharder: str, world_size: int, output: Path, accumulate: int = 1, clip_norm: float = 0.0) -> dict:
    """Runs the program on `world_size` ranks and returns what rank 0 found."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world_size}", "--rdzv-backend=c10d"]
    command += ["--rdzv-endpoint=localhost:0", "--local-addr=127.0.0.1", "-m", "tests.torch_npu_backend.layout_program"]
    variables = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [*command, sharder, str(output), str(accumulate), str(clip_norm)],
        cwd=ROOT,
        env={**os.environ, **variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(output) as file:
        return dict(file)


@pytest.fixture(scope="module")
def one_card(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run("data_parallel", 1, tmp_path_factory.mktemp("one") / "found.npz")


@pytest.mark.parametrize("cards", [2, 4])
@pytest.mark.parametrize("sharder", ["data_parallel", "tensor_parallel", "hybrid", "dp_tp", "zero1"])
def test_losses_and_weights_are_those_of_one_card(tmp_path: Path, one_card: dict, sharder: str, cards: int) -> None:
    found = run(sharder, cards, tmp_path / "found.npz")
    assert found.keys() == one_card.keys()
    for name, array in found.items():
        np.testing.assert_allclose(array, one_card[name], rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    ("sharder", "cards"), [("data_parallel", 2), ("tensor_parallel", 2), ("hybrid", 2), ("dp_tp", 4), ("zero1", 2)]
)
def test_clipping_and_accumulating_are_right_under_every_layout(tmp_path: Path, sharder: str, cards: int) -> None:
    """A norm that cuts every step; three parts a step, whose gradients travel once (the program counts the bytes)."""
    whole = run("data_parallel", 1, tmp_path / "whole.npz", clip_norm=0.05)
    found = run(sharder, cards, tmp_path / "found.npz", accumulate=3, clip_norm=0.05)
    for name, array in found.items():
        np.testing.assert_allclose(array, whole[name], rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("sharder", ["tensor_parallel", "hybrid"])
def test_a_layout_of_one_card_changes_no_bit(tmp_path: Path, one_card: dict, sharder: str) -> None:
    for name, array in run(sharder, 1, tmp_path / "found.npz").items():
        assert np.array_equal(array, one_card[name]), name
