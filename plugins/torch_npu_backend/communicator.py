"""The communicators gloo, nccl and hccl, over torch.distributed."""

from __future__ import annotations

import datetime
import math
import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from core.contracts import Communicator, RankInfo
from core.errors import CommunicatorError
from core.layout import Mesh
from plugins.torch_npu_backend.network import interface_of, local_address

if TYPE_CHECKING:
    import torch

NCCL_ALGORITHMS = {
    "ring": "Ring",
    "tree": "Tree",
    "collnetdirect": "CollnetDirect",
    "collnetchain": "CollnetChain",
    "nvls": "NVLS",
    "nvlstree": "NVLSTree",
    "pat": "PAT",
}
HCCL_ALGORITHMS = {name.lower(): name for name in ("ring", "H-D_R", "NHR", "NB", "AHC", "pipeline")}
HCCL_EXEC_STEP_S, HCCL_EXEC_MAX_S = 68, 17340
HCCL_CONNECT_S = (120, 7200)
MARGIN_S = 32  # by which HCCL_EVENT_TIMEOUT's default exceeds HCCL_EXEC_TIMEOUT's


class TorchCommunicator(Communicator["torch.Tensor"]):
    """Collectives of torch.distributed on the axes of a mesh; one process group a set of axes."""

    library: ClassVar[str]  # what torch.distributed calls it, with Gloo beside it for host values

    @abstractmethod
    def process_timeout_s(self) -> float:
        """Returns torch.distributed's own timeout, which must be the last to expire."""

    def open(self, mesh: Mesh, rank: RankInfo) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist = torch, dist
        self._mesh = mesh
        warnings.filterwarnings("ignore", message=".*Unable to resolve hostname.*")
        dist.init_process_group(
            self.library,
            rank=rank.rank,
            world_size=rank.world_size,
            timeout=datetime.timedelta(seconds=self.process_timeout_s()),
        )
        # Every rank makes the groups in the same order, which the order of a set would not be.
        wanted = [*((name,) for name in mesh.axis_names), tuple(sorted(mesh.axis_names))]
        self._groups = {axes: self._build_group(axes, rank) for axes in dict.fromkeys(wanted)}

    def _build_group(self, axes: tuple[str, ...], rank: RankInfo) -> Any:
        mine = None
        for members in self._mesh.groups(axes):
            is_world = len(members) == rank.world_size
            group = self._dist.group.WORLD if is_world else self._dist.new_group(list(members))
            if rank.rank in members:
                mine = group
        return mine

    def all_reduce(self, tensor: torch.Tensor, axes: tuple[str, ...]) -> Any:
        self._count("all_reduce", axes, tensor.numel() * tensor.element_size())
        return self._dist.all_reduce(tensor, group=self._group(axes), async_op=True)

    def all_gather(self, tensor: torch.Tensor, axis: str, dim: int) -> torch.Tensor:
        size = self._mesh.size(axis)
        self._count("all_gather", (axis,), tensor.numel() * tensor.element_size() * size)
        tensor = tensor.contiguous()
        parts = tensor.new_empty((size, *tensor.shape))
        self._dist.all_gather_single(parts.view(-1), tensor.view(-1), group=self._group((axis,)))
        return _join(parts, dim)

    def reduce_scatter(self, tensor: torch.Tensor, axis: str, dim: int) -> torch.Tensor:
        self._count("reduce_scatter", (axis,), tensor.numel() * tensor.element_size())
        parts = _cut(tensor, self._mesh.size(axis), dim)
        mine = parts.new_empty(parts.shape[1:])
        self._dist.reduce_scatter_single(mine.view(-1), parts.view(-1), group=self._group((axis,)))
        return mine

    def all_to_all(self, tensor: torch.Tensor, axis: str, gather_dim: int, cut_dim: int) -> torch.Tensor:
        size = self._mesh.size(axis)
        self._count("all_to_all", (axis,), tensor.numel() * tensor.element_size() * size)
        parts = _cut(tensor, size, cut_dim)
        received = self._torch.empty_like(parts)
        self._dist.all_to_all_single(received, parts, group=self._group((axis,)))
        return _join(received, gather_dim)

    def agree(self, values: npt.NDArray[np.float64], op: str) -> npt.NDArray[np.float64]:
        operation = {"sum": self._dist.ReduceOp.SUM, "max": self._dist.ReduceOp.MAX, "min": self._dist.ReduceOp.MIN}[op]
        tensor = self._torch.from_numpy(np.array(values, dtype=np.float64))
        self._dist.all_reduce(tensor, op=operation)
        agreed: npt.NDArray[np.float64] = tensor.numpy()
        return agreed

    def barrier(self) -> None:
        self._dist.barrier()

    def close(self) -> None:
        self._dist.destroy_process_group()

    def _group(self, axes: tuple[str, ...]) -> Any:
        return self._groups[tuple(sorted(axes))]

    def _count(self, collective: str, axes: tuple[str, ...], payload_bytes: int) -> None:
        self.payload_bytes[collective, math.prod(self._mesh.size(axis) for axis in axes)] += payload_bytes

    def _choose(self, algorithms: dict[str, str], variable: str) -> str | None:
        """Returns the library's word for the option `algorithm`, None for auto."""
        wanted = self.options.algorithm.lower()
        if wanted == "auto":
            return None
        if wanted not in algorithms:
            offers = f"auto, {', '.join(sorted(algorithms))}" if algorithms else "auto: the library offers no choice"
            raise CommunicatorError(
                f"Communicator '{self.name}' has no algorithm '{self.options.algorithm}'.",
                allowed=offers + (f" ({variable})" if variable else ""),
                remedy="Use communicator.algorithm=auto.",
            )
        return algorithms[wanted]


class GlooCommunicator(TorchCommunicator):
    """Gloo, for CPUs."""

    name = "gloo"
    devices = ("cpu",)
    library = "gloo"

    def environment(self, deterministic: bool, peer: str | None = None) -> dict[str, str]:
        import os

        self._choose({}, "")
        if os.environ.get("GLOO_SOCKET_IFNAME"):
            return {}
        # Left alone, Gloo takes the interface that the host's own name resolves to, which need not resolve, and often
        # resolves to the loopback device: right on one machine, wrong on several.
        interface = "lo" if peer is None else interface_of(local_address(peer, peer))
        return {"GLOO_SOCKET_IFNAME": interface} if interface else {}

    def process_timeout_s(self) -> float:
        return float(self.options.timeout_s)


class NcclCommunicator(TorchCommunicator):
    """NCCL, for CUDA GPUs.

    Source: NCCL's environment variables NCCL_ALGO and NCCL_PROTO, NVIDIA NCCL documentation 2.28.
    """

    name = "nccl"
    devices = ("cuda",)
    library = "cpu:gloo,cuda:nccl"

    def environment(self, deterministic: bool, peer: str | None = None) -> dict[str, str]:
        algorithm = self._choose(NCCL_ALGORITHMS, "NCCL_ALGO")
        variables = {"NCCL_ALGO": algorithm} if algorithm else {}
        if deterministic:
            variables["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        return variables

    def process_timeout_s(self) -> float:
        return float(self.options.timeout_s)


class HcclCommunicator(TorchCommunicator):
    """HCCL, for Ascend NPUs.

    Inside a server HCCL chooses the algorithm itself and takes no word on it (level0 is NA); `algorithm` is what it
    uses between servers (level1). Timeouts are nested so that HCCL's own, which knows the reason, expires before
    torch's: linking up, then a collective (a multiple of 68 s on the Atlas training series), then torch_npu's event,
    then torch.distributed.

    Source: CANN's HCCL documentation (2026-07): HCCL_ALGO, HCCL_DETERMINISTIC, HCCL_CONNECT_TIMEOUT (120 to 7200 s),
    HCCL_EXEC_TIMEOUT; torch_npu's HCCL_EVENT_TIMEOUT, which must exceed HCCL_EXEC_TIMEOUT.
    """

    name = "hccl"
    devices = ("npu",)
    library = "cpu:gloo,npu:hccl"

    def environment(self, deterministic: bool, peer: str | None = None) -> dict[str, str]:
        algorithm = self._choose(HCCL_ALGORITHMS, "HCCL_ALGO, level1")
        variables = {
            "HCCL_CONNECT_TIMEOUT": str(self._connect_s),
            "HCCL_EXEC_TIMEOUT": str(self._exec_s),
            "HCCL_EVENT_TIMEOUT": str(self._exec_s + MARGIN_S),
        }
        if algorithm:
            variables["HCCL_ALGO"] = f"level0:NA;level1:{algorithm}"
        if deterministic:
            variables["HCCL_DETERMINISTIC"] = "true"
        return variables

    def process_timeout_s(self) -> float:
        return max(self._exec_s, self._connect_s) + 2.0 * MARGIN_S

    @property
    def _exec_s(self) -> int:
        steps = max(1, math.ceil(self.options.timeout_s / HCCL_EXEC_STEP_S))
        return min(steps * HCCL_EXEC_STEP_S, HCCL_EXEC_MAX_S // HCCL_EXEC_STEP_S * HCCL_EXEC_STEP_S)

    @property
    def _connect_s(self) -> int:
        low, high = HCCL_CONNECT_S
        return min(max(math.ceil(self.options.timeout_s), low), high)


def _join(parts: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns the `size` parts of (size, *shape) joined along dim `dim` of `shape`."""
    dim %= parts.dim() - 1
    return parts.movedim(0, dim).flatten(dim, dim + 1)


def _cut(tensor: torch.Tensor, size: int, dim: int) -> torch.Tensor:
    """Returns the `size` equal parts of `tensor` along `dim` as one contiguous tensor (size, *part)."""
    dim %= tensor.dim()
    return tensor.unflatten(dim, (size, -1)).movedim(dim, 0).contiguous()
