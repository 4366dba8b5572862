"""core.plan's bytes per card and on the wire are those of live tensors and counted collectives, for every sharder."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.commands import ROOT

pytest.importorskip("torch", reason="the backend's framework is an extra")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("cards", "sharders"),
    [(4, "data_parallel tensor_parallel hybrid dp_tp zero1"), (2, "data_parallel zero1")],
)
def test_the_plan_is_what_is_there(cards: int, sharders: str) -> None:
    """Every model, with and without clipping, accumulation, an average, several buckets, 16 bits, parts of the batch.

    On two cards each computes two of the four parts.
    """
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={cards}", "--rdzv-backend=c10d"]
    command += ["--rdzv-endpoint=localhost:0", "--local-addr=127.0.0.1", "-m", "tests.torch_npu_backend.plan_program"]
    variables = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [*command, *sharders.split()],
        cwd=ROOT,
        env={**os.environ, **variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
