from __future__ import annotations

import sys
from pathlib import Path

import pytest

from core.config.assembly import choose_device
from core.errors import DeviceError
from plugins.torch_npu_backend import device
from plugins.torch_npu_backend.backend import TorchNpuBackend, TorchNpuOptions
from tests.commands import ROOT, run_module

BOTH = {"torch": "2.13.0", "torch-npu": "2.13.0"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device, "DEVICE_FILES", tmp_path)
    for name in device.CANN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    monkeypatch.undo()


def test_an_npu_needs_cards_torch_npu_and_cann(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [part.split(":")[0].split(" (")[0] for part in device.probe("npu", {}).missing] == [
        "there is no Ascend NPU on this machine",
        "torch-npu is not installed",
        "CANN is not set up in this shell",
    ]
    for name in ("davinci0", "davinci1", "davinci_manager"):
        (files / name).touch()
    assert "anycard[npu]" in device.probe("npu", {"torch": "2.13.0"}).missing[0]
    assert "set_env.sh" in device.probe("npu", BOTH).missing[0]
    monkeypatch.setenv("ASCEND_HOME_PATH", "/usr/local/Ascend")
    found = device.probe("npu", BOTH)
    assert (found.missing, found.count) == ((), 2)


def test_a_gpu_needs_cards_and_a_build_with_cuda(files: Path) -> None:
    assert "no /dev/nvidia0" in device.probe("cuda", BOTH).missing[0]
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (files / name).touch()
    assert "build without CUDA" in device.probe("cuda", {"torch": "2.13.0+cpu"}).missing[0]
    found = device.probe("cuda", BOTH)
    assert (found.missing, found.count) == ((), 1)


def test_more_cards_than_devices_is_an_error(files: Path) -> None:
    for number in range(4):
        (files / f"nvidia{number}").touch()
    backend = TorchNpuBackend(TorchNpuOptions())
    backend.probe = lambda kind: device.probe(kind, BOTH)  # type: ignore[method-assign]
    assert choose_device(backend, "cuda", 4).count == 4
    with pytest.raises(DeviceError, match=r"8 on this machine, but there are 4 of device .cuda..*1 to 4 on each"):
        choose_device(backend, "cuda", 8)


def test_auto_takes_the_first_that_is_there(files: Path) -> None:
    backend = TorchNpuBackend(TorchNpuOptions())
    backend.probe = lambda kind: device.probe(kind, BOTH)  # type: ignore[method-assign]
    assert choose_device(backend, "auto", 4).device == "cpu"
    (files / "nvidia0").touch()
    assert choose_device(backend, "auto", 1).device == "cuda"


def test_another_interpreter_is_asked_for_its_packages() -> None:
    assert device.package_versions(sys.executable) == device.installed_versions()
    own = "".join([sys.prefix, "/bin/python"])
    if Path(own).exists() and own != sys.executable:
        assert device.package_versions(own) == device.installed_versions()
    with pytest.raises(DeviceError, match="does not run"):
        device.package_versions("/no/such/python")


@pytest.mark.slow
def test_a_torch_npu_without_cann_does_no_harm(tmp_path: Path) -> None:
    """torch imports what is registered under torch.backends, and torch_npu's import fails without CANN's libraries."""
    package = tmp_path / "torch_npu"
    package.mkdir()
    (package / "__init__.py").write_text(
        "def _autoload():\n    pass\nraise ImportError('libhccl.so: cannot open shared object file: No such file')\n"
    )
    info = tmp_path / "torch_npu-2.13.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.13.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    work = tmp_path / "work"
    work.mkdir()
    environment = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    plain = run_module("torch.utils.collect_env", cwd=work, environment=environment)
    assert "libhccl.so" in plain.stderr, "a bare import of torch fails here"
    arguments = ("core.train", "device=cpu", "cards=1", "steps=2", "eval.every_epochs=0")
    done = run_module(*arguments, cwd=work, environment=environment)
    assert done.returncode == 0, done.stderr
