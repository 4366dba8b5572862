from __future__ import annotations

import pytest

from core.errors import PluginError, UnknownNameError
from core.plugin_system import Registry


def build() -> Registry[int]:
    registry: Registry[int] = Registry("backend")
    registry.add("torch_npu", 1, "plugins.torch_npu_backend")
    registry.add("mindspore", 2, "plugins.mindspore_backend")
    return registry


def test_an_unknown_name_lists_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        build().get("torch_npuu")
    assert str(caught.value) == (
        "Unknown backend 'torch_npuu'. Known: mindspore (plugins.mindspore_backend), torch_npu "
        "(plugins.torch_npu_backend).\n  Did you mean 'torch_npu'?"
    )
    assert isinstance(caught.value, LookupError)


def test_causes_of_plugins_that_did_not_load_are_told() -> None:
    with pytest.raises(UnknownNameError, match="Plugin 'x' did not load: boom"):
        build().get("other", ["Plugin 'x' did not load: boom"])


def test_two_of_one_name_name_both_plugins() -> None:
    registry = build()
    with pytest.raises(PluginError, match=r"'mindspore'.*plugins\.mindspore_backend and stranger"):
        registry.add("mindspore", 3, "stranger")


def test_iteration_is_by_name() -> None:
    assert [name for name, _, _ in build()] == ["mindspore", "torch_npu"]
