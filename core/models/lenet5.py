"""LeNet-5."""

from __future__ import annotations

import math

from core.contracts import Model
from core.errors import SpecError
from core.spec import Conv2d, Flatten, Layer, Linear, MaxPool2d, ModelSpec, ReLU, SampleSpec


class LeNet5(Model):
    """LeNet-5 with ReLU and max pooling, for images of any number of channels.

    At 28x28 with one channel and 10 classes: 61,706 parameters, of which the linear layers hold 59,134. The first
    convolution pads by 2, as the original pads 28x28 digits to 32x32.

    Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998, figure 2.
    """

    name = "lenet5"

    def spec(self, sample: SampleSpec) -> ModelSpec:
        if len(sample.shape) != 3 or min(sample.shape[1:]) < 12:
            raise SpecError(
                "Model 'lenet5' takes images of at least 12x12.",
                received=f"samples of shape {sample.shape}",
                allowed="(channels, height, width)",
                remedy="Set data.resize=[28,28], or choose another data set.",
            )
        features: list[Layer] = [
            Conv2d("conv1", sample.shape[0], 6, kernel_size=5, padding=2),
            ReLU("relu1"),
            MaxPool2d("pool1", kernel_size=2, stride=2),
            Conv2d("conv2", 6, 16, kernel_size=5),
            ReLU("relu2"),
            MaxPool2d("pool2", kernel_size=2, stride=2),
        ]
        shape: tuple[int, ...] = sample.shape
        for layer in features:
            shape = layer.output_shape(shape)
        return ModelSpec(
            self.name,
            sample,
            (
                *features,
                Flatten("flatten"),
                Linear("fc1", math.prod(shape), 120),
                ReLU("relu3"),
                Linear("fc2", 120, 84),
                ReLU("relu4"),
                Linear("fc3", 84, sample.num_classes),
            ),
        )
