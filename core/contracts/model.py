"""The contract of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod

from core.contracts.options import Plugged
from core.spec import ModelSpec, SampleSpec


class Model(Plugged, ABC):
    """A family of networks, as data.

    System rules: used in the parent and on every rank; imports no framework; has no state but its options.
    """

    @abstractmethod
    def spec(self, sample: SampleSpec) -> ModelSpec:
        """Returns the network for samples of the given shape and number of classes.

        Raises:
            SpecError: The model cannot take such samples.
        """
