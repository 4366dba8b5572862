"""The data set's transforms on whole batches."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from core.contracts import Normalize, RandomAffine, RandomCrop, RandomFlip, Resize, Transform
from core.contracts.transforms import RANDOM


class Transforms(nn.Module):
    """Turns a batch of stored samples, any dtype, into float32 samples of the model's shape.

    Args:
        transforms: In order.
    """

    def __init__(self, transforms: tuple[Transform, ...]) -> None:
        super().__init__()
        self.steps = nn.ModuleList([MODULES[type(transform)](transform) for transform in transforms])
        self._is_random = [isinstance(transform, RANDOM) for transform in transforms]

    def forward(self, batch: torch.Tensor, choices: list[torch.Tensor | None] | None) -> torch.Tensor:
        """Applies all transforms, the random ones by their choices; without choices these are left out."""
        batch = batch.to(torch.float32)
        for index, step in enumerate(self.steps):
            if not self._is_random[index]:
                batch = step(batch)
            elif choices is not None:
                batch = step(batch, choices[index])
        return batch


class Crop(nn.Module):
    """`RandomCrop`: a window a sample out of the padded images."""

    def __init__(self, transform: RandomCrop) -> None:
        super().__init__()
        self._padding = transform.padding

    def forward(self, batch: torch.Tensor, corners: torch.Tensor) -> torch.Tensor:
        height, width = batch.shape[-2:]
        padded = F.pad(batch, (self._padding,) * 4)
        rows = corners[:, 0, None] + torch.arange(height, device=batch.device)
        columns = corners[:, 1, None] + torch.arange(width, device=batch.device)
        samples = torch.arange(len(batch), device=batch.device)[:, None, None]
        return padded[samples, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class Flip(nn.Module):
    """`RandomFlip`."""

    def __init__(self, transform: RandomFlip) -> None:
        super().__init__()

    def forward(self, batch: torch.Tensor, flipped: torch.Tensor) -> torch.Tensor:
        return torch.where(flipped[:, None, None, None], batch.flip(-1), batch)


class AffineMap(nn.Module):
    """`RandomAffine`."""

    def __init__(self, transform: RandomAffine) -> None:
        super().__init__()

    def forward(self, batch: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
        grid = F.affine_grid(matrices, list(batch.shape), align_corners=False)
        return F.grid_sample(batch, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


class NormalizeChannels(nn.Module):
    """(x - mean) / std with one mean and std for dim 1."""

    def __init__(self, transform: Normalize) -> None:
        super().__init__()
        std = torch.tensor(transform.std, dtype=torch.float32)
        self.register_buffer("scale", 1.0 / std)
        self.register_buffer("shift", -torch.tensor(transform.mean, dtype=torch.float32) / std)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        shape = (1, -1, *(1 for _ in range(batch.dim() - 2)))
        return batch.mul(self.scale.view(shape)).add_(self.shift.view(shape))


class ResizeBilinear(nn.Module):
    """Bilinear resizing as one product with a matrix a side, the same on every framework."""

    def __init__(self, transform: Resize) -> None:
        super().__init__()
        self._size = (transform.height, transform.width)
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


MODULES: dict[type, Callable[..., nn.Module]] = {
    Normalize: NormalizeChannels,
    RandomAffine: AffineMap,
    RandomCrop: Crop,
    RandomFlip: Flip,
    Resize: ResizeBilinear,
}
