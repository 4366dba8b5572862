"""Layers whose weights may be one card's part of the full tensor."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from core import spec


class Linear(nn.Module):
    """y = x W^T + b with this card's part of W; a partial product is combined before the bias is added.

    Args:
        weight_shape: The local weight, (out, in).
        bias_shape: The local bias.
        combine: What turns the cards' partial products into the output; empty when the product is whole.
    """

    def __init__(self, weight_shape: tuple[int, ...], bias_shape: tuple[int, ...], combine: nn.Sequential) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(weight_shape))
        self.bias = nn.Parameter(torch.empty(bias_shape))
        self.combine = combine

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        if len(self.combine) == 0:
            return F.linear(tensor, self.weight, self.bias)
        output = self.combine(F.linear(tensor, self.weight))
        return output + self.bias.to(output.dtype)


class Conv2d(nn.Module):
    """Two-dimensional cross-correlation with the whole weight.

    Args:
        layer: The convolution's sizes.
    """

    def __init__(self, layer: spec.Conv2d) -> None:
        super().__init__()
        shape = layer.parameters()[0].shape
        self.weight = nn.Parameter(torch.empty(shape).contiguous(memory_format=torch.channels_last))
        self.bias = nn.Parameter(torch.empty(shape[0])) if layer.bias else None
        self._stride, self._padding, self._groups = layer.stride, layer.padding, layer.groups

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return F.conv2d(tensor, self.weight, self.bias, self._stride, self._padding, 1, self._groups)
