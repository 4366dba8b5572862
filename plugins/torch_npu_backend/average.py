"""The moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn


class Average:
    """Follows the weights; evaluation runs it in their place.

    Args:
        decay: Part of the average that stays at each update.
        parameters: By canonical name.
    """

    def __init__(self, decay: float, parameters: Mapping[str, nn.Parameter]) -> None:
        self._decay = decay
        self._parameters = list(parameters.values())
        self.tensors = {name: parameter.detach().clone() for name, parameter in parameters.items()}

    @torch.no_grad()
    def follow(self) -> None:
        """Takes one update of the weights in."""
        torch._foreach_lerp_(list(self.tensors.values()), self._parameters, 1.0 - self._decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Lets the model run on the average for a while."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for name, parameter in zip(self.tensors, self._parameters, strict=True):
            parameter.data, self.tensors[name] = self.tensors[name], parameter.data
