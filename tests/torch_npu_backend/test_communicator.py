"""What the communicators set before a rank starts; the collectives themselves are tested by training on them."""

from __future__ import annotations

import pytest

from core.contracts.communicator import CommunicatorOptions
from core.errors import CommunicatorError, ConfigError
from plugins.torch_npu_backend.communicator import GlooCommunicator, HcclCommunicator, NcclCommunicator


def hccl(**options) -> HcclCommunicator:
    return HcclCommunicator(CommunicatorOptions(**options))


def test_hccl_takes_an_algorithm_between_servers_alone() -> None:
    assert hccl(algorithm="ring").environment(False)["HCCL_ALGO"] == "level0:NA;level1:ring"
    assert hccl(algorithm="nhr").environment(False)["HCCL_ALGO"] == "level0:NA;level1:NHR"
    assert "HCCL_ALGO" not in hccl().environment(False)
    with pytest.raises(CommunicatorError, match=r"no algorithm 'tree'.*HCCL_ALGO, level1"):
        hccl(algorithm="tree").environment(False)


@pytest.mark.parametrize("timeout_s", [1, 68, 120, 600, 1800, 7300, 100000])
def test_hccls_own_timeouts_expire_first(timeout_s: float) -> None:
    communicator = hccl(timeout_s=timeout_s)
    variables = communicator.environment(False)
    connect, execute, event = (int(variables[f"HCCL_{name}_TIMEOUT"]) for name in ("CONNECT", "EXEC", "EVENT"))
    assert 120 <= connect <= 7200
    assert execute % 68 == 0, "what is not a multiple of 68 is rounded down by some products"
    assert 68 <= execute <= 17340
    assert execute >= min(timeout_s, 17340 - 68)
    assert execute < event
    assert max(connect + 20, event) < communicator.process_timeout_s()


def test_nccl_takes_an_algorithm_by_its_name() -> None:
    communicator = NcclCommunicator(CommunicatorOptions(algorithm="tree"))
    assert communicator.environment(False) == {"NCCL_ALGO": "Tree"}
    with pytest.raises(CommunicatorError, match="NCCL_ALGO"):
        NcclCommunicator(CommunicatorOptions(algorithm="nhr")).environment(False)


def test_deterministic_runs_ask_the_libraries() -> None:
    assert hccl().environment(True)["HCCL_DETERMINISTIC"] == "true"
    assert NcclCommunicator(CommunicatorOptions()).environment(True)["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_gloo_needs_no_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GlooCommunicator(CommunicatorOptions()).environment(False) == {"GLOO_SOCKET_IFNAME": "lo"}
    assert GlooCommunicator(CommunicatorOptions()).environment(False, "127.0.0.1") == {"GLOO_SOCKET_IFNAME": "lo"}
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert GlooCommunicator(CommunicatorOptions()).environment(False) == {}
    monkeypatch.undo()


@pytest.mark.parametrize("values", [{"bucket_mb": 0.0}, {"timeout_s": -1.0}])
def test_options_out_of_range_are_named(values) -> None:
    with pytest.raises(ConfigError, match=f"communicator.{next(iter(values))}"):
        CommunicatorOptions(**values)
