"""Gradients in flat buckets, summed over the cards that each saw a part of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from core.contracts import Communicator
from core.contracts.communicator import Compression
from core.layout import Bucket, Mesh

WIRE_DTYPES = {Compression.fp16: torch.float16, Compression.bf16: torch.bfloat16}


@dataclass
class FlatBucket:
    """Gradients that travel together: one flat tensor, of which each parameter's gradient is a view.

    Attributes:
        plan: Which gradients, and over which axes they are summed.
        flat: (num_elements,), float32.
        piece: What the update sees of it: all, or this rank's piece of the sum.
        replicas: `flat`, and those of the model's replicas.
        missing: How many gradients the step's backward passes have still to add.
    """

    plan: Bucket
    flat: torch.Tensor
    piece: torch.Tensor
    replicas: list[torch.Tensor]
    missing: int = 0
    handle: Any = None
    wire: torch.Tensor | None = None


class Gradients:
    """All gradients of one rank.

    With more than one bucket to sum, each starts travelling as soon as the backward pass has filled it and those before
    it, while the pass goes on: in one order on all ranks, whatever parameters a user's module leaves out of a step.
    With one there is nothing to overlap and no hook is paid for. Where the optimizer's state is shared out, the sums
    are scattered after the pass: each rank gets its piece.

    Args:
        parameters: By canonical name.
        plans: The buckets.
        communicator: Open on the mesh; its options say in which format gradients travel.
        mesh: The cards.
        is_ordered: Whether sums are taken pairwise in the order of the batch's parts, on any number of cards.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        plans: Sequence[Bucket],
        communicator: Communicator[torch.Tensor],
        mesh: Mesh,
        is_ordered: bool,
    ) -> None:
        self._mesh = mesh
        self._communicator = communicator
        self.is_ordered = is_ordered
        self._wire_dtype = WIRE_DTYPES.get(communicator.options.compress)
        self._overlaps = not is_ordered and sum(bool(plan.axes) and plan.num_pieces == 1 for plan in plans) > 1
        self.buckets = [self._build_bucket(parameters, plan) for plan in plans]
        self._summed = [bucket for bucket in self.buckets if bucket.plan.axes and bucket.plan.num_pieces == 1]
        self._num_started = 0
        self._scattered = [bucket for bucket in self.buckets if bucket.plan.num_pieces > 1]

    def add_replica(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Takes in a replica of the model, which runs the next part of this rank's rows with gradients of its own."""
        for bucket in self.buckets:
            flat = torch.zeros_like(bucket.flat)
            members = [parameters[name] for name in bucket.plan.names]
            for member, view in zip(members, views_like(members, flat), strict=True):
                member.grad = view
            bucket.replicas.append(flat)

    def zero(self, num_passes: int) -> None:
        """Clears all gradients before the step's `num_passes` backward passes."""
        self._num_started = 0
        for bucket in self.buckets:
            for flat in bucket.replicas:
                flat.zero_()
            bucket.missing = len(bucket.plan.names) * num_passes

    def reduce(self) -> None:
        """Ends the step's sums; collective. Afterwards every piece is that of the global batch."""
        if self.is_ordered:
            for bucket in self.buckets:
                self._sum_in_order(bucket)
            return
        while self._num_started < len(self._summed):
            self._start_next()
        for bucket in self._summed:
            bucket.handle.wait()
            if bucket.wire is not None:
                bucket.flat.copy_(bucket.wire)
                bucket.wire = None
        for bucket in self._scattered:
            (axis,) = bucket.plan.axes
            wire = bucket.flat if self._wire_dtype is None else bucket.flat.to(self._wire_dtype)
            bucket.piece.copy_(self._communicator.reduce_scatter(wire, axis, 0))

    def scale(self, factor: torch.Tensor | float) -> None:
        """Multiplies every gradient by a number."""
        for bucket in self.buckets:
            bucket.piece.mul_(factor)

    def are_finite(self) -> bool:
        """Returns whether every number of this rank's gradients is finite."""
        return all(bool(torch.isfinite(bucket.piece).all()) for bucket in self.buckets)

    def _build_bucket(self, parameters: Mapping[str, nn.Parameter], plan: Bucket) -> FlatBucket:
        members = [parameters[name] for name in plan.names]
        flat = torch.zeros(plan.num_elements, device=members[0].device)
        piece = flat if plan.num_pieces == 1 else flat.new_zeros(plan.num_elements // plan.num_pieces)
        bucket = FlatBucket(plan, flat, piece, [flat])
        for member, view in zip(members, views_like(members, flat), strict=True):
            member.grad = view
        if plan.axes and self._overlaps:
            for member in members:
                member.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._filled(bucket))
        return bucket

    def _sum_in_order(self, bucket: FlatBucket) -> None:
        total = sum_pairwise(bucket.replicas)
        wire = total if self._wire_dtype is None else total.to(self._wire_dtype)
        for axis in reversed(bucket.plan.axes):
            wire = self._all_reduce_in_order(wire, axis)
        bucket.flat.copy_(wire)

    def _all_reduce_in_order(self, tensor: torch.Tensor, axis: str) -> torch.Tensor:
        """Returns the sum over the cards of an axis, each element's terms added pairwise in their order, float32.

        Every card gets all terms of its part, adds them up and gives the sums to the others: as many bytes as an
        all-reduce that is free to choose its order.
        """
        size = self._mesh.size(axis)
        padded = F.pad(tensor, (0, -len(tensor) % size))
        terms = self._communicator.all_to_all(padded, axis, 0, 0).view(size, -1)
        own = sum_pairwise([term.float() for term in terms])
        return self._communicator.all_gather(own, axis, 0)[: len(tensor)]

    def _filled(self, bucket: FlatBucket) -> None:
        bucket.missing -= 1
        while self._num_started < len(self._summed) and self._summed[self._num_started].missing == 0:
            self._start_next()

    def _start_next(self) -> None:
        bucket = self._summed[self._num_started]
        self._num_started += 1
        if self._wire_dtype is not None:
            bucket.wire = bucket.flat.to(self._wire_dtype)
        carried = bucket.flat if bucket.wire is None else bucket.wire
        bucket.handle = self._communicator.all_reduce(carried, bucket.plan.axes)


def views_like(tensors: Sequence[torch.Tensor], flat: torch.Tensor) -> list[torch.Tensor]:
    """Returns views of a flat tensor, one after the other, with the shapes and strides of `tensors`.

    With a parameter's strides its gradient is added without being converted.
    """
    views, offset = [], 0
    for tensor in tensors:
        views.append(flat.as_strided(tensor.shape, tensor.stride(), offset))
        offset += tensor.numel()
    return views


def sum_pairwise(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the sum of neighbours, then of neighbouring sums: the same whether it is taken at once or by halves."""
    level = list(tensors)
    while len(level) > 1:
        level = [one + other for one, other in zip(level[::2], level[1::2], strict=True)]
    return level[0]
