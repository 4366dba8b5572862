"""The data set's transforms on whole batches."""

from __future__ import annotations

import math

import torch
from torch import nn

from core.contracts import Normalize, Resize, Transform


def build_transforms(transforms: tuple[Transform, ...], device: torch.device) -> nn.Sequential:
    """Returns what turns a batch of stored samples, any dtype, into float32 samples of the model's shape."""
    modules: list[nn.Module] = [ToFloat()]
    for transform in transforms:
        match transform:
            case Resize(height, width):
                modules.append(ResizeBilinear(height, width))
            case Normalize(mean, std):
                modules.append(NormalizeChannels(mean, std))
            case _:
                raise AssertionError(transform)
    return nn.Sequential(*modules).to(device)


class ToFloat(nn.Module):
    """Stored numbers as float32."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.to(torch.float32)


class NormalizeChannels(nn.Module):
    """(x - mean) / std with one mean and std for dim 1."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("scale", 1.0 / torch.tensor(std, dtype=torch.float32))
        self.register_buffer("shift", -torch.tensor(mean, dtype=torch.float32) / torch.tensor(std))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        shape = (1, -1, *(1 for _ in range(batch.dim() - 2)))
        return batch.mul(self.scale.view(shape)).add_(self.shift.view(shape))


class ResizeBilinear(nn.Module):
    """Bilinear resizing as one product with a matrix a side, the same on every framework."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self._size = (height, width)
        self._matrices: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        source = (batch.shape[-2], batch.shape[-1])
        if source not in self._matrices:
            rows, columns = (
                interpolation_matrix(a, b).to(batch.device) for a, b in zip(source, self._size, strict=True)
            )
            self._matrices[source] = (rows, columns.T.contiguous())
        rows, columns = self._matrices[source]
        return rows @ (batch @ columns)


def interpolation_matrix(source: int, target: int) -> torch.Tensor:
    """Returns the (target, source) float32 matrix of linear interpolation with half-pixel centres.

    Source: `torch.nn.functional.interpolate(mode="linear", align_corners=False)`, 2.13.
    """
    matrix = torch.zeros(target, source, dtype=torch.float64)
    for index in range(target):
        position = max((index + 0.5) * source / target - 0.5, 0.0)
        low = min(math.floor(position), source - 1)
        high = min(low + 1, source - 1)
        matrix[index, low] += 1.0 - (position - low)
        matrix[index, high] += position - low
    return matrix.to(torch.float32)
