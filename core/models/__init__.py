"""The core's own models."""

from __future__ import annotations

from collections.abc import Sequence

from core.contracts import Model
from core.hookspecs import hookimpl


@hookimpl
def anycard_models() -> Sequence[type[Model]]:
    from core.models.bert import Bert
    from core.models.lenet5 import LeNet5
    from core.models.mobilenet_v2 import MobileNetV2
    from core.models.native import Native
    from core.models.resnet import ResNet18, ResNet50

    return [LeNet5, ResNet18, ResNet50, MobileNetV2, Bert, Native]
