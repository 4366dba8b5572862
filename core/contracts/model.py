"""The contract of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from core.contracts.options import Plugged
from core.contracts.user_class import UserClass
from core.errors import ConfigError
from core.spec import ModelSpec, SampleSpec


@dataclass(kw_only=True)
class ModelOptions:
    """What every model takes; a model's own options derive from it."""

    weights: str | None = None  # a safetensors file, or a folder with model.safetensors, to start from; null: anew
    replace_head: bool = False  # start the classifier anew where the weights have another one, or none

    def __post_init__(self) -> None:
        if self.replace_head and self.weights is None:
            raise ConfigError(
                "'model.replace_head' would be without effect, since no weights are loaded.",
                remedy="Set model.weights, or model.replace_head=false.",
            )


class Model(Plugged, ABC):
    """A family of networks, as data.

    System rules: used in the parent and on every rank; imports no framework; has no state but its options.

    Attributes:
        foreign_heads: Prefixes of names that published weights hold for other tasks' heads; `replace_head` leaves these
            out.
    """

    Options: ClassVar[type] = ModelOptions
    foreign_heads: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def spec(self, sample: SampleSpec) -> ModelSpec:
        """Returns the network for samples of the given shape and number of classes.

        Raises:
            SpecError: The model cannot take such samples; or it is a user's class, which a backend has to describe.
        """

    def user_class(self, backend: str) -> UserClass | None:
        """Returns the user's class that is the network on a backend; None, unless overridden: the network is data.

        Raises:
            ConfigError: There is none for this backend; names the key to set.
        """
        return None

    @property
    def head(self) -> str | None:
        """Prefix of the names of a user's class that belong to the classes alone; None, unless overridden."""
        return None

    def canonical_name(self, published: str) -> str | None:
        """Returns the canonical name of a tensor in published weights, None for one that the model has no use for."""
        return published
