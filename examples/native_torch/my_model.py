"""A network of one's own: a small residual CNN in plain PyTorch, which knows nothing of anycard.

    python -m core.train model=native model.target.torch_npu=my_model:SmallResNet model.arguments={width:16}

in this folder trains it; on four cards with cards=4.
"""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions with batch norm beside the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.bn1(self.conv1(images)))
        return torch.relu(images + self.bn2(self.conv2(inner)))


class SmallResNet(nn.Module):
    """A residual network for images of any size.

    Args:
        width: Channels of every convolution.
        channels: Of the images.
        num_classes: Logits for each image.
        dropout: Probability before the classifier.
    """

    def __init__(self, width: int = 16, channels: int = 1, num_classes: int = 10, dropout: float = 0.1) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.blocks(torch.relu(self.stem(images)))
        return self.fc(self.dropout(features.mean((2, 3))))
