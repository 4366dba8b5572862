"""Which devices there are, found out without importing torch; and taking one.

Importing torch takes a second and, where torch_npu is installed and CANN is not, fails: its auto-load looks for
libhccl.so. So the parent looks at device files and package metadata, and ranks import torch with auto-load off.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core.contracts import DeviceProbe
from core.errors import DeviceError

if TYPE_CHECKING:
    import torch

    from core.contracts import RankInfo

AUTOLOAD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
PACKAGES = ("torch", "torch-npu")
CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
DEVICE_FILES = Path("/dev")
PROBE_TIMEOUT_S = 20.0


def probe(device: str, versions: dict[str, str]) -> DeviceProbe:
    """Returns whether `device` can be used by the interpreter that has the packages `versions`."""
    missing: list[str] = []
    count: int | None = None
    if device == "npu":
        count = len(list(DEVICE_FILES.glob("davinci[0-9]*")))
        if not count:
            missing.append("there is no Ascend NPU on this machine: no /dev/davinci0")
        if "torch-npu" not in versions:
            missing.append("torch-npu is not installed (pip install 'anycard[npu]')")
        if not any(os.environ.get(name) for name in CANN_VARIABLES):
            missing.append("CANN is not set up in this shell (source /usr/local/Ascend/ascend-toolkit/set_env.sh)")
    elif device == "cuda":
        count = len([path for path in DEVICE_FILES.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)])
        if not count:
            missing.append("there is no NVIDIA GPU on this machine: no /dev/nvidia0")
        if "+cpu" in versions.get("torch", ""):
            missing.append(f"torch {versions['torch']} is a build without CUDA")
    return DeviceProbe(device, count, tuple(missing))


@functools.cache
def package_versions(python: str) -> dict[str, str]:
    """Returns the versions of torch and torch-npu that an interpreter would import.

    Raises:
        DeviceError: The interpreter does not run.
    """
    if python == sys.executable:
        return installed_versions()
    code = (
        "import importlib.metadata as m, json;"
        "names = {d.metadata['Name'].lower().replace('_', '-'): d.version for d in m.distributions()};"
        f"print(json.dumps({{n: names[n] for n in {PACKAGES!r} if n in names}}))"
    )
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise DeviceError(
            "'backend.python' does not run.", received=f"{python}: {error}", allowed="the path of a Python interpreter"
        ) from None
    versions: dict[str, str] = json.loads(done.stdout)
    return versions


def installed_versions() -> dict[str, str]:
    """Returns the versions of torch and torch-npu in this interpreter."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def take(rank: RankInfo) -> torch.device:
    """Imports what the rank's device needs and returns it, made current.

    Raises:
        DeviceError: The device cannot be used; says what is missing.
    """
    os.environ.update(AUTOLOAD)
    import torch

    if rank.device == "npu":
        try:
            import torch_npu  # noqa: F401  (registers the device)
        except ImportError as error:
            raise DeviceError(
                "torch_npu does not load.",
                received=str(error),
                remedy="Source CANN's set_env.sh in this shell, and install the torch-npu that fits it.",
                rank=rank.rank,
            ) from error
        torch.npu.set_device(rank.local_rank)
        return torch.device("npu", rank.local_rank)
    if rank.device == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError("torch finds no CUDA device.", received=f"torch {torch.__version__}", rank=rank.rank)
        torch.cuda.set_device(rank.local_rank)
        return torch.device("cuda", rank.local_rank)
    return torch.device("cpu")
