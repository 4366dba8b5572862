"""The backend: starts ranks with torchrun's agent and builds the engine."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import sys
import sysconfig
from dataclasses import dataclass
from typing import TYPE_CHECKING

import core
from core.contracts import (
    Backend,
    DescribeRequest,
    DeviceProbe,
    Engine,
    EngineRequest,
    LaunchCommand,
    LaunchJob,
    RankInfo,
)
from core.errors import ConfigError, DeviceError
from plugins.torch_npu_backend import device as devices
from plugins.torch_npu_backend.launcher import LaunchRequest
from plugins.torch_npu_backend.network import local_address
from plugins.torch_npu_backend.outside import rank_variables

if TYPE_CHECKING:
    import torch

DESCRIBE_MODULE = "plugins.torch_npu_backend.describe"
LAUNCHER_MODULE = "plugins.torch_npu_backend.launcher"


@dataclass(kw_only=True)
class TorchNpuOptions:
    """The options of backend=torch_npu."""

    python: str | None = None  # interpreter that runs the ranks; null: the one that runs the command
    threads: int = 0  # CPU threads a rank; 0: the machine's cores divided by the ranks on it
    port: int = 0  # port of the rendezvous on a single machine; 0: a free one

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise ConfigError("'backend.threads' is out of range.", received=self.threads, allowed="at least 0")
        if not 0 <= self.port < 65536:
            raise ConfigError("'backend.port' is out of range.", received=self.port, allowed="0 to 65535")


class TorchNpuBackend(Backend):
    """PyTorch."""

    name = "torch_npu"
    Options = TorchNpuOptions
    devices = ("npu", "cuda", "cpu")
    modules = ("torch", "torch_npu")

    def probe(self, device: str) -> DeviceProbe:
        return devices.probe(device, devices.package_versions(self._python))

    def default_communicator(self, device: str) -> str:
        return {"npu": "hccl", "cuda": "nccl", "cpu": "gloo"}[device]

    def launch_command(self, job: LaunchJob) -> LaunchCommand:
        self._check_installed()
        if self.options.port and (job.is_external or job.rendezvous):
            raise ConfigError(
                "'backend.port' would be without effect: the ranks do not meet at a port of this machine's choice.",
                received=f"backend.port={self.options.port}",
                remedy="Leave it out.",
            )
        threads = self.options.threads or _threads(job.cards)
        environment = {**devices.AUTOLOAD, "OMP_NUM_THREADS": str(threads), **_source_path()}
        if job.is_external:
            variables = rank_variables()
            return LaunchCommand(
                argv=(self._python, "-u", "-m", job.worker, str(job.run_dir)),
                environment={**environment, **variables},
                peer=variables["MASTER_ADDR"] if job.nodes > 1 else None,
            )
        host, address, port = "127.0.0.1", "127.0.0.1", str(self.options.port)
        if job.rendezvous:
            host, _, port = job.rendezvous.rpartition(":")
            address = local_address(host, f"cluster.rendezvous={job.rendezvous}")
        if job.node_rank == 0 and port != "0":
            _check_port(host, int(port), "cluster.rendezvous" if job.rendezvous else "backend.port")
        start = LaunchRequest(
            cards=job.cards,
            worker=job.worker,
            exits=str(job.exits),
            nodes=job.nodes,
            node_rank=job.node_rank,
            endpoint=f"{host}:{port}",
            address=address,
        )
        return LaunchCommand(
            argv=(self._python, "-m", LAUNCHER_MODULE, str(job.run_dir), json.dumps(dataclasses.asdict(start))),
            environment=environment,
            peer=host if job.rendezvous else None,
        )

    def describe_command(self, request: DescribeRequest) -> LaunchCommand:
        self._check_installed()
        return LaunchCommand(
            argv=(self._python, "-m", DESCRIBE_MODULE, request.to_json()),
            environment={**devices.AUTOLOAD, **_source_path()},
        )

    def read_rank(self, device: str) -> RankInfo:
        variables = rank_variables()
        return RankInfo(
            rank=int(variables["RANK"]),
            local_rank=int(variables["LOCAL_RANK"]),
            world_size=int(variables["WORLD_SIZE"]),
            device=device,
            nodes=int(variables["GROUP_WORLD_SIZE"]),
        )

    def prepare(self, rank: RankInfo, deterministic: bool) -> None:
        self._device: torch.device = devices.take(rank)
        import torch

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        if deterministic:
            torch.use_deterministic_algorithms(True)

    def build_engine(self, request: EngineRequest) -> Engine:
        from plugins.torch_npu_backend.engine import TorchEngine

        return TorchEngine(request, self._device)

    def _check_installed(self) -> None:
        if "torch" not in devices.package_versions(self._python):
            raise DeviceError(
                "Backend 'torch_npu' needs PyTorch, which is not installed.",
                received=f"interpreter {self._python}",
                remedy="pip install 'anycard[torch]', or 'anycard[npu]' on a machine with NPUs and CANN.",
            )

    @property
    def _python(self) -> str:
        return self.options.python or sys.executable


def _threads(cards: int) -> int:
    """Returns the CPU threads of a rank: Slurm's word for one task, or an equal part of the machine's cores."""
    slurm = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return int(slurm) if slurm.isdecimal() and "SLURM_PROCID" in os.environ else max(1, (os.cpu_count() or 1) // cards)


def _check_port(host: str, port: int, key: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            is_ours = key == "backend.port"
            raise ConfigError(
                f"Port {port} cannot be used: {error.strerror}.",
                received=f"{key}={port if is_ours else f'{host}:{port}'}",
                allowed="a free port, or 0, which takes one" if is_ours else "an address of machine 0, and a free port",
                remedy="Use backend.port=0." if is_ours else None,
            ) from None


def _source_path() -> dict[str, str]:
    """Returns PYTHONPATH with the checkout that anycard runs from, so that any interpreter finds it there.

    Nothing when it is installed: another interpreter must not import this one's site-packages.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(core.__file__)))
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return {}
    return {"PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}
