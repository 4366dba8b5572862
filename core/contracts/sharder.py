"""The contract of a sharder."""

from __future__ import annotations

from abc import ABC, abstractmethod

from core.contracts.options import Plugged
from core.layout import Layout
from core.spec import ModelSpec


class Sharder(Plugged, ABC):
    """A rule that lays a model over cards.

    System rules: a pure function of its options and arguments; called in the parent and on every rank, where it must
    give the same answer; imports no framework.
    """

    @abstractmethod
    def plan(self, spec: ModelSpec, cards: int) -> Layout:
        """Returns the layout of `spec` over `cards` cards.

        Raises:
            LayoutError: The model does not divide; names the layer and what would work.
        """
