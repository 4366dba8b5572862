"""The optimizer on one rank: on whole local tensors, or on this rank's flat pieces of all of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from core.contracts import Communicator, Optimizer
from plugins.torch_npu_backend.gradients import Gradients, views_like
from plugins.torch_npu_backend.updates import Update

Tensors = dict[str, torch.Tensor]


class OptimizerState:
    """Parameters, their gradients and the rule's tensors, as the update sees them.

    With buckets of one piece that is each parameter by itself. With more (ZeRO, stage 1) the parameters of a bucket
    become views of one flat tensor; this rank updates its piece of it and gathers the others'.

    Args:
        rule: The update rule.
        parameters: By canonical name; their gradients lie in `gradients`.
        gradients: The buckets.
        communicator: Open on the mesh.
        piece: Which piece of each bucket this rank updates.
    """

    def __init__(
        self,
        rule: Optimizer,
        parameters: Mapping[str, nn.Parameter],
        gradients: Gradients,
        communicator: Communicator[torch.Tensor],
        piece: int,
    ) -> None:
        self._parameters = parameters
        self._buckets = gradients.buckets
        self._communicator = communicator
        self._piece = piece
        self._is_shared = self._buckets[0].plan.num_pieces > 1
        if self._is_shared:
            self._flats = [self._flatten(bucket.plan.names, bucket.plan.num_elements) for bucket in self._buckets]
            pieces = {
                self._key(index): self._own(flat) for index, flat in enumerate(self._flats)
            }  # views: updating them updates the parameters
            own_gradients = {self._key(index): bucket.piece for index, bucket in enumerate(self._buckets)}
            self._update = Update(rule, pieces, own_gradients)
        else:
            whole = {name: parameter.grad for name, parameter in parameters.items()}
            self._update = Update(rule, parameters, whole)

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the rule's tensors."""
        return tuple(self._update.slots)

    @property
    def num_bytes(self) -> int:
        """Bytes of the rule's tensors on this rank."""
        return sum(t.numel() * t.element_size() for slot in self._update.slots.values() for t in slot.values())

    def apply(self, lr: float) -> None:
        """Does one update; collective where the state is shared out."""
        self._update.apply(lr)
        if self._is_shared:
            for flat, bucket in zip(self._flats, self._buckets, strict=True):
                flat.copy_(self._gather(self._own(flat), bucket.plan.axes[0]))

    def set_num_updates(self, count: int) -> None:
        """Sets the number of updates that were done before."""
        self._update.set_num_updates(count)

    def load(self, slot: str, tensors: Tensors | None) -> None:
        """Takes a slot's local tensors by parameter; None sets it to zero."""
        held = self._update.slots[slot]
        if tensors is None:
            for tensor in held.values():
                tensor.zero_()
        elif not self._is_shared:
            for name, tensor in tensors.items():
                held[name].copy_(tensor)
        else:
            for index, bucket in enumerate(self._buckets):
                flat = torch.zeros_like(self._flats[index])
                members = [self._parameters[name] for name in bucket.plan.names]
                for name, view in zip(bucket.plan.names, views_like(members, flat), strict=True):
                    view.copy_(tensors[name])
                held[self._key(index)].copy_(self._own(flat))

    def local(self, slot: str) -> Tensors:
        """Returns a slot's local tensors by parameter; collective where the state is shared out."""
        held = self._update.slots[slot]
        if not self._is_shared:
            return dict(held)
        found: Tensors = {}
        for index, bucket in enumerate(self._buckets):
            flat = self._gather(held[self._key(index)], bucket.plan.axes[0])
            members = [self._parameters[name] for name in bucket.plan.names]
            found |= dict(zip(bucket.plan.names, views_like(members, flat), strict=True))
        return found

    def _flatten(self, names: tuple[str, ...], num_elements: int) -> torch.Tensor:
        """Returns one flat tensor of which the named parameters become views, with their values."""
        members = [self._parameters[name] for name in names]
        flat = torch.zeros(num_elements, device=members[0].device)
        for member, view in zip(members, views_like(members, flat), strict=True):
            view.copy_(member.detach())
            member.data = view
        return flat

    def _own(self, flat: torch.Tensor) -> torch.Tensor:
        """Returns this rank's piece of a flat tensor, a view."""
        return flat.chunk(self._buckets[0].plan.num_pieces)[self._piece]

    def _gather(self, piece: torch.Tensor, axis: str) -> torch.Tensor:
        return self._communicator.all_gather(piece, axis, 0)

    @staticmethod
    def _key(index: int) -> str:
        return f"bucket {index}"
