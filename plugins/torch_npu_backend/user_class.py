"""Importing a user's class, calling it, and running it as one layer of a model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from core.randomness.counter import counter_key
from plugins.torch_npu_backend.step_context import StepContext


def import_class(target: str) -> Any:
    """Returns what "package.module:Class" names.

    Raises:
        Exception: Whatever the module's own code raises, ImportError or AttributeError if there is no such name.
    """
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def build_module(target: str, arguments: Mapping[str, Any], seed: int) -> nn.Module:
    """Returns an instance on the CPU; whatever it draws follows from the seed, as after `torch.manual_seed(seed)`."""
    torch.manual_seed(seed)
    module: nn.Module = import_class(target)(**arguments)
    return module


class UserModule(nn.Module):
    """A user's module as a layer.

    In training it sees the real rows alone, so that padding leaves no trace in statistics of its own, and its random
    numbers follow from seed, epoch and the first sample of the rows: the same after a resume, others on another number
    of cards.

    Args:
        module: The user's.
        num_classes: Logits that it gives.
        seed: The run's.
        part: Which of this rank's parts of the batch it runs.
        context: Of the step.
    """

    def __init__(self, module: nn.Module, num_classes: int, seed: int, part: int, context: StepContext) -> None:
        super().__init__()
        self.module = module
        self._num_classes = num_classes
        self._seed = seed
        self._part = part
        self._context = context

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return self.module(samples)
        rows, real = len(samples), self._context.own_counts[self._part]
        if real == 0:  # no sample here, yet the backward pass wants something that has a gradient
            return torch.zeros(rows, self._num_classes, device=samples.device, requires_grad=True)
        first = self._context.own_first_ids[self._part]
        low, high = counter_key(self._seed, "user class", self._context.epoch, first)
        torch.manual_seed(high << 32 | low)
        return F.pad(self.module(samples[:real]), (0, 0, 0, rows - real))
