"""What core and backend tell each other of a network that is a user's own class."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from core.spec import SampleSpec

DESCRIPTION_FILE = "module.json"
TENSORS_FILE = "module.safetensors"


@dataclass(frozen=True)
class UserClass:
    """A class to import and to call.

    Attributes:
        target: "package.module:Class".
        arguments: Keyword arguments, plain values.
    """

    target: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DescribeRequest:
    """What a backend is to describe.

    Attributes:
        target: The class.
        arguments: Its keyword arguments, plain values.
        shape: Of one sample.
        num_classes: Logits that it must give for each.
        vocabulary: Number of token ids, None for samples that are numbers.
        seed: Of the framework's generator before the class is called.
        folder: An existing folder, which gets the two files of a `Description`.
    """

    target: str
    arguments: dict[str, Any]
    shape: tuple[int, ...]
    num_classes: int
    vocabulary: int | None
    seed: int
    folder: str

    @classmethod
    def of(cls, user_class: UserClass, sample: SampleSpec, seed: int, folder: str) -> DescribeRequest:
        """Returns the request for a class and the samples that it is to take."""
        return cls(
            user_class.target,
            user_class.arguments,
            sample.shape,
            sample.num_classes,
            sample.vocabulary,
            seed,
            folder,
        )

    def to_json(self) -> str:
        """Returns the request as one argument of a command."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DescribeRequest:
        """Returns the request that `to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "shape": tuple(values["shape"])})


@dataclass(frozen=True)
class TensorShape:
    """One tensor of a class: name, shape and NumPy's name of its format."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Description:
    """What a class is from outside; written as DESCRIPTION_FILE beside TENSORS_FILE, which holds the initial values.

    Attributes:
        trained: Parameters that ask for a gradient, each once, float32.
        frozen: Parameters that ask for none.
        moving: Buffers that belong to the class's state.
        num_flops: Of one forward pass for one sample.
        batch_norms: Names of parts that normalise by the statistics of the rows that they see.
        random_parts: Names of parts that draw random numbers in training.
        problem: Why there is no description; the other fields are empty then.
        received: As `AnycardError`.
        allowed: As `AnycardError`.
        calls: The user's own lines that led to the problem, the last one last.
    """

    trained: tuple[TensorShape, ...] = ()
    frozen: tuple[TensorShape, ...] = ()
    moving: tuple[TensorShape, ...] = ()
    num_flops: int = 0
    batch_norms: tuple[str, ...] = ()
    random_parts: tuple[str, ...] = ()
    problem: str | None = None
    received: str | None = None
    allowed: str | None = None
    calls: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Returns the content of DESCRIPTION_FILE."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Description:
        """Returns the description that `to_json` wrote."""
        values = json.loads(text)
        for key in ("trained", "frozen", "moving"):
            values[key] = tuple(TensorShape(item["name"], tuple(item["shape"]), item["dtype"]) for item in values[key])
        for key in ("batch_norms", "random_parts", "calls"):
            values[key] = tuple(values[key])
        return cls(**values)
