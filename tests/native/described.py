"""Describing users' classes without a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.config.user_model import build_spec
from core.contracts import DescribeRequest, UserClass
from core.models.native import Native, NativeOptions
from core.spec import ModelSpec, SampleSpec
from plugins.torch_npu_backend.backend import TorchNpuBackend, TorchNpuOptions
from plugins.torch_npu_backend.describe import main

MODELS = "tests.native.user_models"
SAMPLE = SampleSpec((6,), 3)


def described(folder: Path, name: str, sample: SampleSpec = SAMPLE, **arguments: Any) -> ModelSpec:
    """Returns the spec of a class of user_models under seed 0, whose files lie in `folder`."""
    target = f"{MODELS}:{name}" if ":" not in name else name
    folder.mkdir(parents=True, exist_ok=True)
    main(DescribeRequest.of(UserClass(target, arguments), sample, 0, str(folder)))
    model = Native(NativeOptions(target={"torch_npu": target}, arguments=arguments))
    return build_spec(model, TorchNpuBackend(TorchNpuOptions()), sample, 0, folder)
