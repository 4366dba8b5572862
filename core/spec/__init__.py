"""A network written as data: layers, shapes, parameters, initialisers and cost, with no framework in it."""

from core.spec.initializers import Constant, Initializer, Uniform, initial_parameters
from core.spec.layers import Conv2d, Flatten, Layer, Linear, MaxPool2d, ParameterSpec, ReLU
from core.spec.model_spec import BoundLayer, ModelSpec
from core.spec.sample_spec import SampleSpec

__all__ = [
    "BoundLayer",
    "Constant",
    "Conv2d",
    "Flatten",
    "Initializer",
    "Layer",
    "Linear",
    "MaxPool2d",
    "ModelSpec",
    "ParameterSpec",
    "ReLU",
    "SampleSpec",
    "Uniform",
    "initial_parameters",
]
