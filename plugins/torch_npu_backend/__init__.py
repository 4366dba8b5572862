"""PyTorch on Ascend NPUs (torch_npu, HCCL), CUDA GPUs (NCCL) and CPUs (Gloo)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core import Backend, Communicator, hookimpl


@hookimpl
def anycard_backends() -> Sequence[type[Backend]]:
    from plugins.torch_npu_backend.backend import TorchNpuBackend

    return [TorchNpuBackend]


@hookimpl
def anycard_communicators() -> Sequence[type[Communicator[Any]]]:
    from plugins.torch_npu_backend.communicator import GlooCommunicator, HcclCommunicator, NcclCommunicator

    return [GlooCommunicator, NcclCommunicator, HcclCommunicator]
