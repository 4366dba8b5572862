"""A network written as data: layers, shapes, parameters, initialisers and cost, with no framework in it."""

from core.spec.image_layers import AvgPool2d, BatchNorm2d, Conv2d, GlobalAvgPool2d, MaxPool2d
from core.spec.initializers import Constant, Initializer, Normal, Stored, Uniform, initial_tensors
from core.spec.layer import INPUT, Layer, ParameterSpec, Shape
from core.spec.linear_layers import Flatten, LayerNorm, Linear
from core.spec.model_spec import BoundLayer, ModelSpec
from core.spec.native_layer import Native
from core.spec.pointwise_layers import GELU, Add, Dropout, ReLU, ReLU6, Tanh
from core.spec.sample_spec import SampleSpec
from core.spec.sequence_layers import AddPositions, AddSegment, Attention, Embedding, FirstToken

__all__ = [
    "GELU",
    "INPUT",
    "Add",
    "AddPositions",
    "AddSegment",
    "Attention",
    "AvgPool2d",
    "BatchNorm2d",
    "BoundLayer",
    "Constant",
    "Conv2d",
    "Dropout",
    "Embedding",
    "FirstToken",
    "Flatten",
    "GlobalAvgPool2d",
    "Initializer",
    "Layer",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "ModelSpec",
    "Native",
    "Normal",
    "ParameterSpec",
    "ReLU",
    "ReLU6",
    "SampleSpec",
    "Shape",
    "Stored",
    "Tanh",
    "Uniform",
    "initial_tensors",
]
