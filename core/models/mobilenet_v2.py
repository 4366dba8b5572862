"""MobileNetV2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from core.models.convnet import ConvNet, ConvNetOptions
from core.spec import (
    Add,
    Dropout,
    GlobalAvgPool2d,
    Layer,
    Linear,
    ModelSpec,
    Normal,
    ReLU6,
    SampleSpec,
)

# Expansion, output channels, blocks and first stride of each stage: table 2 of the paper.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
FIRST_CHANNELS, LAST_CHANNELS = 32, 1280


@dataclass(kw_only=True)
class MobileNetV2Options(ConvNetOptions):
    """The options of model=mobilenet_v2."""

    dropout: float = 0.2  # before the classifier


class MobileNetV2(ConvNet):
    """Inverted residuals with linear bottlenecks, with torchvision's names and initial values.

    Source: Sandler et al. 2018, arXiv:1801.04381; `torchvision.models.mobilenetv2` (0.28).
    """

    name = "mobilenet_v2"
    Options = MobileNetV2Options

    def spec(self, sample: SampleSpec) -> ModelSpec:
        self._check_images(sample)
        return ModelSpec(self.name, sample, tuple(self._layers(sample)), head="classifier.1")

    def _layers(self, sample: SampleSpec) -> Iterator[Layer]:
        yield from self._unit("features.0", sample.shape[0], FIRST_CHANNELS, 3, 2)
        before, channels, index = "features.0.2", FIRST_CHANNELS, 1
        for expansion, outputs, count, first_stride in STAGES:
            for number in range(count):
                stride = first_stride if number == 0 else 1
                yield from self._block(f"features.{index}", before, channels, outputs, expansion, stride)
                is_residual = stride == 1 and channels == outputs
                last = 2 if expansion != 1 else 1
                before = f"features.{index}.add" if is_residual else f"features.{index}.conv.{last + 1}"
                channels, index = outputs, index + 1
        yield from self._unit(f"features.{index}", channels, LAST_CHANNELS, 1, 1)
        yield GlobalAvgPool2d("pool")
        if self.options.dropout:
            yield Dropout("classifier.0", self.options.dropout)
        yield Linear("classifier.1", LAST_CHANNELS, sample.num_classes, initializer=Normal(0.01))

    def _block(
        self, name: str, before: str, channels: int, outputs: int, expansion: int, stride: int
    ) -> Iterator[Layer]:
        """Yields one inverted residual, which takes the output of layer `before`, the layer that came last."""
        hidden = channels * expansion
        position = 0
        if expansion != 1:
            yield from self._unit(f"{name}.conv.{position}", channels, hidden, 1, 1)
            position += 1
        yield from self._unit(f"{name}.conv.{position}", hidden, hidden, 3, stride, groups=hidden)
        position += 1
        yield self._conv(f"{name}.conv.{position}", hidden, outputs, 1, 1, 1)
        yield self._norm(f"{name}.conv.{position + 1}", outputs)
        if stride == 1 and channels == outputs:
            yield Add(f"{name}.add", inputs=(before, f"{name}.conv.{position + 1}"))

    def _unit(
        self,
        name: str,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        groups: int = 1,
    ) -> Iterator[Layer]:
        """Yields convolution, batch norm and ReLU6."""
        yield self._conv(f"{name}.0", inputs, outputs, kernel, stride, groups)
        yield self._norm(f"{name}.1", outputs)
        yield ReLU6(f"{name}.2")
