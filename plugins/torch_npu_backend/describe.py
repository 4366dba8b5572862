"""Describes a user's class, in a process of its own that the parent starts.

python -m plugins.torch_npu_backend.describe REQUEST, where the request is a DescribeRequest as JSON.
"""

from __future__ import annotations

import dataclasses
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save_file
from torch import nn
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.flop_counter import FlopCounterMode

from core.contracts import DESCRIPTION_FILE, TENSORS_FILE, DescribeRequest, Description, TensorShape
from plugins.torch_npu_backend.user_class import build_module, import_class

ROWS = 2
MOST_CALLS = 4
STORED = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


class UnfitClass(Exception):
    """The class does not do as it must; carries the description that says so."""

    def __init__(
        self, problem: str, received: object, allowed: str | None = None, cause: Exception | None = None
    ) -> None:
        super().__init__(problem)
        calls = () if cause is None else tuple(_calls(cause))
        self.description = Description(problem=problem, received=str(received), allowed=allowed, calls=calls)


def main(request: DescribeRequest) -> None:
    """Writes the description, and the initial values if the class is fit."""
    folder = Path(request.folder)
    try:
        module = _build(request)
        description = _describe(module, request)
        initial = {name: tensor.detach().numpy().copy() for name, tensor in _tensors(module).items()}
        _check_forward(module, request)
        save_file(initial, folder / TENSORS_FILE)
        description = dataclasses.replace(description, num_flops=_count_flops(module, request))
    except UnfitClass as unfit:
        description = unfit.description
    (folder / DESCRIPTION_FILE).write_text(description.to_json())


def _build(request: DescribeRequest) -> nn.Module:
    target = request.target
    try:
        cls = import_class(target)
    except Exception as error:
        allowed = "package.module:Class, importable from the current directory or installed"
        raise UnfitClass(f"The class '{target}' cannot be imported.", _one_line(error), allowed, error) from error
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise UnfitClass(f"'{target}' is no class of modules.", repr(cls), "a subclass of torch.nn.Module")
    given = ", ".join(f"{name}={value!r}" for name, value in request.arguments.items())
    try:
        return build_module(target, request.arguments, request.seed)
    except Exception as error:
        raise UnfitClass(f"{target}({given}) cannot be made.", _one_line(error), None, error) from error


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Returns parameters, shared ones once, and the buffers that belong to the module's state."""
    kept = module.state_dict(keep_vars=True)
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in kept}
    return {**dict(module.named_parameters()), **buffers}


def _describe(module: nn.Module, request: DescribeRequest) -> Description:
    groups: dict[str, list[TensorShape]] = {"trained": [], "frozen": [], "moving": []}
    parameters = dict(module.named_parameters())
    extra = [name for name in module.state_dict() if name.rpartition(".")[2] == "_extra_state"]
    if extra:
        raise UnfitClass(
            f"{request.target} has a state that no checkpoint here holds.", extra[0], "parameters and buffers"
        )
    for name, tensor in _tensors(module).items():
        if nn.parameter.is_lazy(tensor):
            raise UnfitClass(f"'{name}' of {request.target} has no shape yet.", "a lazy module", "known sizes")
        kind = "moving" if name not in parameters else "trained" if tensor.requires_grad else "frozen"
        dtype = str(tensor.dtype).removeprefix("torch.")
        allowed = ("float32",) if kind == "trained" else STORED
        if dtype not in allowed:
            note = "; precision=amp_bf16 computes in 16 bits" if kind == "trained" else ""
            raise UnfitClass(
                f"'{name}' of {request.target} is of a format that cannot be {kind if note else 'stored'}.",
                dtype,
                ", ".join(allowed) + note,
            )
        groups[kind].append(TensorShape(name, tuple(tensor.shape), dtype))
    if not groups["trained"]:
        raise UnfitClass(f"{request.target} has nothing to train.", "no parameter that asks for a gradient")
    return Description(
        trained=tuple(groups["trained"]),
        frozen=tuple(groups["frozen"]),
        moving=tuple(groups["moving"]),
        batch_norms=tuple(name for name, part in module.named_modules() if _is_batch_norm(part)),
        random_parts=tuple(name for name, part in module.named_modules() if _is_random(part)),
    )


def _is_batch_norm(part: nn.Module) -> bool:
    return isinstance(part, _BatchNorm) and not isinstance(part, SyncBatchNorm)


def _is_random(part: nn.Module) -> bool:
    if isinstance(part, _DropoutNd):
        return part.p > 0
    return isinstance(part, (nn.RNNBase, nn.MultiheadAttention)) and part.dropout > 0


def _samples(request: DescribeRequest) -> torch.Tensor:
    shape = (ROWS, *request.shape)
    return torch.zeros(shape) if request.vocabulary is None else torch.ones(shape, dtype=torch.int32)


def _check_forward(module: nn.Module, request: DescribeRequest) -> None:
    samples = _samples(request)
    kind = f"{str(samples.dtype).removeprefix('torch.')} of shape {tuple(samples.shape)}"
    try:
        with torch.no_grad():
            output: Any = module.eval()(samples)
    except Exception as error:
        raise UnfitClass(f"{request.target} fails on samples, {kind}.", _one_line(error), None, error) from error
    shape = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
    if shape != (ROWS, request.num_classes):
        raise UnfitClass(
            f"{request.target} does not give one logit a class for samples, {kind}.",
            shape,
            f"a tensor of shape {(ROWS, request.num_classes)}",
        )


def _count_flops(module: nn.Module, request: DescribeRequest) -> int:
    """Returns the operations of matrix products and convolutions for one sample, 2 for a multiply and add.

    Source: `torch.utils.flop_counter` (2.13).
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(_samples(request))
    return int(counter.get_total_flops()) // ROWS


def _one_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _calls(error: Exception) -> list[str]:
    """Returns the last of the user's own lines that led to an error, past the libraries' and ours."""
    libraries = (str(Path(torch.__file__).parent), str(Path(__file__).parent), str(Path(traceback.__file__).parent))
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith((*libraries, "<frozen"))]
    return [f"{one.filename}:{one.lineno} in {one.name}: {one.line}" for one in own[-MOST_CALLS:]]


if __name__ == "__main__":
    main(DescribeRequest.from_json(sys.argv[1]))
