"""What networks of convolutions and batch norms share."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from core.contracts import Model, ModelOptions
from core.errors import ConfigError, SpecError
from core.spec import BatchNorm2d, Conv2d, Normal, SampleSpec


@dataclass(kw_only=True)
class ConvNetOptions(ModelOptions):
    """The options of a network of convolutions and batch norms."""

    sync_batch_norm: bool = True  # statistics over all cards' rows; false: each card's own, faster, another curve
    dropout: float = 0.0  # before the classifier

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout < 1:
            raise ConfigError("'model.dropout' is out of range.", received=self.dropout, allowed="a number in [0, 1)")


class ConvNet(Model, ABC):
    """A network of convolutions and batch norms, with torchvision's names.

    Attributes:
        least_side: The smallest height and width that the network can take, in pixels.
    """

    Options = ConvNetOptions
    least_side: ClassVar[int] = 1

    def canonical_name(self, published: str) -> str | None:
        return None if published.endswith(".num_batches_tracked") else published

    def _check_images(self, sample: SampleSpec) -> None:
        if len(sample.shape) != 3 or min(sample.shape[1:]) < self.least_side:
            size = f" of at least {self.least_side}x{self.least_side}" if self.least_side > 1 else ""
            raise SpecError(
                f"Model '{self.name}' takes images{size}.",
                received=f"samples of shape {sample.shape}",
                allowed="(channels, height, width)",
                remedy="Set data.resize, or choose another data set.",
            )

    def _conv(
        self, name: str, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1, takes: str = ""
    ) -> Conv2d:
        """Returns a convolution without bias, its initial weights normal of variance 2 / fan_out.

        It takes the output of layer `takes`, or of the one before.

        Source: He, Zhang, Ren, Sun 2015, arXiv:1502.01852, section 2.2 (backward case).
        """
        return Conv2d(
            name,
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=kernel // 2,
            groups=groups,
            bias=False,
            initializer=Normal(math.sqrt(2.0 / (outputs * kernel**2 / groups))),
            inputs=(takes,) if takes else (),
        )

    def _norm(self, name: str, channels: int) -> BatchNorm2d:
        return BatchNorm2d(name, channels, synchronized=self.options.sync_batch_norm)
