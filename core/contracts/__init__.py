"""The abstract classes that plugins implement, and the data that passes between them and the core."""

from core.contracts.backend import Backend, DeviceProbe, EngineRequest, LaunchCommand, LaunchJob, RankInfo
from core.contracts.communicator import Communicator
from core.contracts.dataset import ArraySplit, Dataset
from core.contracts.engine import Engine, EvaluationTotals, TrainingState, Window, WindowResult
from core.contracts.model import Model, ModelOptions
from core.contracts.optimizer import SGD, Adam, AdamW, Optimizer
from core.contracts.options import NoOptions, Plugged
from core.contracts.sharder import Sharder
from core.contracts.step import LossScale, Precision, StepSpec
from core.contracts.transforms import Normalize, RandomAffine, RandomCrop, RandomFlip, Resize, Transform
from core.contracts.user_class import (
    DESCRIPTION_FILE,
    TENSORS_FILE,
    DescribeRequest,
    Description,
    TensorShape,
    UserClass,
)

__all__ = [
    "DESCRIPTION_FILE",
    "SGD",
    "TENSORS_FILE",
    "Adam",
    "AdamW",
    "ArraySplit",
    "Backend",
    "Communicator",
    "Dataset",
    "DescribeRequest",
    "Description",
    "DeviceProbe",
    "Engine",
    "EngineRequest",
    "EvaluationTotals",
    "LaunchCommand",
    "LaunchJob",
    "LossScale",
    "Model",
    "ModelOptions",
    "NoOptions",
    "Normalize",
    "Optimizer",
    "Plugged",
    "Precision",
    "RandomAffine",
    "RandomCrop",
    "RandomFlip",
    "RankInfo",
    "Resize",
    "Sharder",
    "StepSpec",
    "TensorShape",
    "TrainingState",
    "Transform",
    "UserClass",
    "Window",
    "WindowResult",
]
