"""Every model of the core, on the smallest samples that it takes."""

from __future__ import annotations

from core.models.bert import Bert, BertOptions
from core.models.lenet5 import LeNet5
from core.models.mobilenet_v2 import MobileNetV2, MobileNetV2Options
from core.models.resnet import ResNet18, ResNet50, ResNetOptions
from core.spec import ModelSpec, SampleSpec


def small_models() -> dict[str, ModelSpec]:
    """Returns specs by name; of BERT also one whose vocabulary no group of cards divides."""
    heads = BertOptions(heads=4)
    return {
        "lenet5": LeNet5(None).spec(SampleSpec((1, 28, 28), 10)),
        "resnet18": ResNet18(ResNetOptions()).spec(SampleSpec((3, 16, 16), 10)),
        "resnet18, local": ResNet18(ResNetOptions(sync_batch_norm=False)).spec(SampleSpec((3, 16, 16), 10)),
        "resnet50": ResNet50(ResNetOptions()).spec(SampleSpec((3, 8, 8), 10)),
        "mobilenet_v2": MobileNetV2(MobileNetV2Options()).spec(SampleSpec((3, 32, 32), 10)),
        "bert": Bert(heads).spec(SampleSpec((8,), 4, vocabulary=64)),
        "bert, odd": Bert(heads).spec(SampleSpec((8,), 4, vocabulary=63)),
    }
