"""Buffers that a user's module changes in its forward pass: the same on all cards, and untouched by skipped steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from core.contracts import Communicator


class UserBuffers:
    """The buffers of users' modules on one rank.

    After a step each becomes what it was before plus the mean of the cards' changes, each weighted by its rows; a
    constant stays the same to the last bit. For running statistics that is their mean, as for the core's own batch
    norms over one card's rows. Integers, which count, become the largest of the cards'.

    Args:
        buffers: In the same order on every rank; they keep their memory.
        axes: The axes that split the batch, those of more than one card.
        communicator: Open on the layout's mesh.
        may_skip: Whether a step may be skipped.
    """

    def __init__(
        self,
        buffers: Sequence[torch.Tensor],
        axes: tuple[str, ...],
        communicator: Communicator[torch.Tensor],
        may_skip: bool,
    ) -> None:
        self._buffers = list(buffers) if axes or may_skip else []
        self._axes = axes
        self._communicator = communicator
        self._before: list[torch.Tensor] = []
        self._share = 1.0

    def begin(self, num_own: int, num_all: int) -> None:
        """Remembers the buffers before a step that runs `num_own` of `num_all` real rows here."""
        self._share = num_own / num_all
        self._before = [buffer.clone() for buffer in self._buffers]

    @torch.no_grad()
    def discard(self) -> None:
        """Undoes what the passes of a skipped step changed."""
        for buffer, before in zip(self._buffers, self._before, strict=True):
            buffer.copy_(before)

    @torch.no_grad()
    def commit(self) -> None:
        """Brings the changes of the cards together; collective."""
        if not self._axes or not self._buffers:
            return
        floats = [place for place, buffer in enumerate(self._buffers) if buffer.is_floating_point()]
        for dtype in dict.fromkeys(self._buffers[place].dtype for place in floats):
            self._average([place for place in floats if self._buffers[place].dtype == dtype])
        integers = [buffer for buffer in self._buffers if not buffer.is_floating_point()]
        if integers:
            self._take_largest(integers)

    def _average(self, places: list[int]) -> None:
        buffers, before = [self._buffers[place] for place in places], [self._before[place] for place in places]
        flat = torch.cat([(now - then).flatten() for now, then in zip(buffers, before, strict=True)]) * self._share
        self._communicator.all_reduce(flat, self._axes).wait()
        sizes = [buffer.numel() for buffer in buffers]
        for buffer, then, change in zip(buffers, before, flat.split(sizes), strict=True):
            buffer.copy_(then + change.view_as(then))

    def _take_largest(self, buffers: list[torch.Tensor]) -> None:
        flat = torch.cat([buffer.flatten().long() for buffer in buffers])
        size = len(flat)
        for axis in self._axes:
            flat = self._communicator.all_gather(flat, axis, 0)
        largest = flat.view(-1, size).amax(0)
        for buffer, value in zip(buffers, largest.split([buffer.numel() for buffer in buffers]), strict=True):
            buffer.copy_(value.view_as(buffer))
