"""An engine on one card without processes, for tests that look at one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from core.contracts import Communicator, EngineRequest, Optimizer, RankInfo, StepSpec, TrainingState
from core.contracts.communicator import CommunicatorOptions
from core.layout import build_flow
from core.sharders.data_parallel import DataParallel
from core.spec import ModelSpec
from plugins.torch_npu_backend.engine import TorchEngine


class Alone(Communicator[Any]):
    """The communicator of a run with one card: nothing moves."""

    name = "alone"
    devices = ("cpu",)

    def environment(self, deterministic: bool, peer: str | None = None) -> dict[str, str]:
        return {}

    def open(self, mesh: Any, rank: RankInfo) -> None:
        pass

    def all_reduce(self, tensor: Any, axes: tuple[str, ...]) -> Any:
        raise AssertionError("one card has nobody to talk to")

    def all_gather(self, tensor: Any, axis: str, dim: int) -> Any:
        raise AssertionError("one card has nobody to talk to")

    def reduce_scatter(self, tensor: Any, axis: str, dim: int) -> Any:
        raise AssertionError("one card has nobody to talk to")

    def all_to_all(self, tensor: Any, axis: str, gather_dim: int, cut_dim: int) -> Any:
        raise AssertionError("one card has nobody to talk to")

    def agree(self, values: Any, op: str) -> Any:
        return np.array(values)

    def barrier(self) -> None:
        pass

    def close(self) -> None:
        pass


def build_engine(spec: ModelSpec, optimizer: Optimizer, device: str = "cpu", **step: Any) -> TorchEngine:
    """Returns a loaded engine; `device` steers the lowering alone, everything runs on the CPU; `step` are options."""
    layout = DataParallel(None).plan(spec, 1)
    request = EngineRequest(
        spec=spec,
        layout=layout,
        flow=build_flow(spec, layout),
        transforms=(),
        communicator=Alone(CommunicatorOptions()),
        step=StepSpec(optimizer, **step),
        rank=RankInfo(0, 0, 1, device),
        seed=0,
    )
    engine = TorchEngine(request, torch.device("cpu"))
    engine.load(TrainingState.initial(spec, 0))
    return engine
