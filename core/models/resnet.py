"""ResNet-18 and ResNet-50."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from core.models.convnet import ConvNet, ConvNetOptions
from core.spec import (
    Add,
    Dropout,
    GlobalAvgPool2d,
    Layer,
    Linear,
    MaxPool2d,
    ModelSpec,
    ReLU,
    SampleSpec,
)

WIDTHS = (64, 128, 256, 512)
SMALL_IMAGE = 64  # below this side the stem keeps the resolution


class Stem(Enum):
    """What the image meets first."""

    auto = "auto"  # cifar for images below 64 a side, imagenet for others
    cifar = "cifar"  # a 3x3 convolution that keeps the resolution (He et al. 2015, section 4.2)
    imagenet = "imagenet"  # a 7x7 convolution of stride 2 and a max pool


@dataclass(kw_only=True)
class ResNetOptions(ConvNetOptions):
    """The options of model=resnet18 and model=resnet50."""

    stem: Stem = Stem.auto


class ResNet(ConvNet):
    """A residual network with torchvision's names and initial values.

    Source: He, Zhang, Ren, Sun 2015, arXiv:1512.03385; `torchvision.models.resnet` (0.28), whose bottlenecks have their
    stride in the 3x3 convolution; convolutions start from a normal of std sqrt(2 / fan_out).
    """

    Options = ResNetOptions
    least_side = 8
    blocks: ClassVar[tuple[int, ...]]
    is_bottleneck: ClassVar[bool]

    def spec(self, sample: SampleSpec) -> ModelSpec:
        self._check_images(sample)
        return ModelSpec(self.name, sample, tuple(self._layers(sample)), head="fc")

    def _layers(self, sample: SampleSpec) -> Iterator[Layer]:
        yield from self._stem(sample)
        channels = WIDTHS[0]
        before = "maxpool" if self._has_imagenet_stem(sample) else "relu"
        for stage, (width, count) in enumerate(zip(WIDTHS, self.blocks, strict=True), start=1):
            for index in range(count):
                stride = 2 if stage > 1 and index == 0 else 1
                name = f"layer{stage}.{index}"
                after = width * (4 if self.is_bottleneck else 1)
                yield from self._block(name, before, channels, width, after, stride)
                before, channels = f"{name}.relu_out", after
        yield GlobalAvgPool2d("avgpool")
        if self.options.dropout:
            yield Dropout("dropout", self.options.dropout)
        yield Linear("fc", channels, sample.num_classes)

    def _has_imagenet_stem(self, sample: SampleSpec) -> bool:
        stem = self.options.stem
        return stem is Stem.imagenet or (stem is Stem.auto and min(sample.shape[1:]) >= SMALL_IMAGE)

    def _stem(self, sample: SampleSpec) -> Iterator[Layer]:
        is_large = self._has_imagenet_stem(sample)
        kernel, stride = (7, 2) if is_large else (3, 1)
        yield self._conv("conv1", sample.shape[0], WIDTHS[0], kernel, stride)
        yield self._norm("bn1", WIDTHS[0])
        yield ReLU("relu")
        if is_large:
            yield MaxPool2d("maxpool", kernel_size=3, stride=2, padding=1)

    def _block(self, name: str, before: str, channels: int, width: int, after: int, stride: int) -> Iterator[Layer]:
        """Yields one residual block, which takes the output of layer `before`."""
        shortcut = before
        if stride != 1 or channels != after:
            shortcut = f"{name}.downsample.1"
            yield self._conv(f"{name}.downsample.0", channels, after, 1, stride, takes=before)
            yield self._norm(shortcut, after)
        # (kernel, stride, outputs) of the block's convolutions
        small, full = [(3, stride, width), (3, 1, width)], [(1, 1, width), (3, stride, width), (1, 1, after)]
        convolutions = full if self.is_bottleneck else small
        taken, inputs = before, channels
        for number, (kernel, step, outputs) in enumerate(convolutions, start=1):
            yield self._conv(f"{name}.conv{number}", inputs, outputs, kernel, step, takes=taken)
            yield self._norm(f"{name}.bn{number}", outputs)
            if number < len(convolutions):
                yield ReLU(f"{name}.relu{number}")
            taken, inputs = f"{name}.relu{number}", outputs
        yield Add(f"{name}.add", inputs=(f"{name}.bn{len(convolutions)}", shortcut))
        yield ReLU(f"{name}.relu_out")


class ResNet18(ResNet):
    """18 layers with weights, in basic blocks."""

    name = "resnet18"
    blocks = (2, 2, 2, 2)
    is_bottleneck = False


class ResNet50(ResNet):
    """50 layers with weights, in bottlenecks."""

    name = "resnet50"
    blocks = (3, 4, 6, 3)
    is_bottleneck = True
