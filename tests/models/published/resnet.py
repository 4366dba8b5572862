"""ResNet in plain torch, with torchvision's names."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """A basic block, or with `wide` a bottleneck of 1x1, 3x3 (which has the stride) and 1x1."""

    def __init__(self, inputs: int, width: int, stride: int, wide: bool) -> None:
        super().__init__()
        outputs = width * (4 if wide else 1)
        sizes = [(1, 1, width), (3, stride, width), (1, 1, outputs)] if wide else [(3, stride, width), (3, 1, width)]
        self.depth = len(sizes)
        for number, (kernel, step, out) in enumerate(sizes, start=1):
            before = inputs if number == 1 else width
            setattr(self, f"conv{number}", nn.Conv2d(before, out, kernel, step, kernel // 2, bias=False))
            setattr(self, f"bn{number}", nn.BatchNorm2d(out))
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for number in range(1, self.depth + 1):
            y = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(y))
            if number < self.depth:
                y = y.relu()
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    def __init__(self, blocks: list[int], wide: bool, num_classes: int, cifar_stem: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(
            3, 64, 3 if cifar_stem else 7, 1 if cifar_stem else 2, 1 if cifar_stem else 3, bias=False
        )
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if cifar_stem else nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for stage, count in enumerate(blocks):
            width = 64 * 2**stage
            layers = []
            for index in range(count):
                layers.append(Block(inputs, width, 2 if stage and not index else 1, wide))
                inputs = width * (4 if wide else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))
