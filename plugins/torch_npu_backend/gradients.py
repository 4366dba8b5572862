"""Gradients in flat buckets, summed over the cards that each saw a part of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from core.contracts import Communicator
from core.contracts.communicator import Compression

MIB = 2**20
WIRE_DTYPES = {Compression.fp16: torch.float16, Compression.bf16: torch.bfloat16}


@dataclass
class Bucket:
    """Gradients that travel together: one flat tensor, of which each parameter's gradient is a view.

    Attributes:
        flat: (num_elements,), float32.
        axes: The axes over which it is summed; none for gradients that are whole already.
        members: How many parameters fill it.
        missing: How many gradients the step's backward passes have still to add.
    """

    flat: torch.Tensor
    axes: tuple[str, ...]
    members: int
    missing: int = 0
    handle: Any = None
    wire: torch.Tensor | None = None


class Gradients:
    """All gradients of one rank.

    With more than one bucket to sum, each starts travelling as soon as the backward pass has filled it, while the pass
    goes on; with one there is nothing to overlap and no hook is paid for.

    Args:
        parameters: By canonical name, in the order of the layers.
        axes: For each the axes over which its gradient is summed; axes of one card left out.
        communicator: Open on the mesh; its options say bucket size and compression.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        axes: Mapping[str, tuple[str, ...]],
        communicator: Communicator[torch.Tensor],
    ) -> None:
        self._communicator = communicator
        self._wire_dtype = WIRE_DTYPES.get(communicator.options.compress)
        self._limit = communicator.options.bucket_mb * MIB
        partition = self._partition(parameters, axes)
        self._overlaps = sum(bool(key) for key, _ in partition) > 1
        self._buckets = [self._build_bucket(members, key) for key, members in partition]
        self._summed = [bucket for bucket in self._buckets if bucket.axes]

    def zero(self, num_passes: int) -> None:
        """Clears all gradients before the step's `num_passes` backward passes."""
        for bucket in self._buckets:
            bucket.flat.zero_()
            bucket.missing = bucket.members * num_passes

    def reduce(self) -> None:
        """Ends the step's sums; collective. Afterwards every gradient is that of the global batch."""
        if not self._overlaps:
            for bucket in self._summed:
                self._start(bucket)
        for bucket in self._summed:
            bucket.handle.wait()
            if bucket.wire is not None:
                bucket.flat.copy_(bucket.wire)
                bucket.wire = None

    def scale(self, factor: torch.Tensor) -> None:
        """Multiplies every gradient by a number on the device."""
        for bucket in self._buckets:
            bucket.flat.mul_(factor)

    def are_finite(self) -> bool:
        """Returns whether every number of this rank's gradients is finite."""
        return all(bool(torch.isfinite(bucket.flat).all()) for bucket in self._buckets)

    def _partition(
        self, parameters: Mapping[str, nn.Parameter], axes: Mapping[str, tuple[str, ...]]
    ) -> list[tuple[tuple[str, ...], list[nn.Parameter]]]:
        """Returns the buckets' members, from the last layer on, cut where the axes change or a bucket is full."""
        buckets: dict[tuple[str, ...], list[list[nn.Parameter]]] = {}
        for name, parameter in reversed(parameters.items()):
            groups = buckets.setdefault(axes[name], [[]])
            held = sum(member.numel() * member.element_size() for member in groups[-1])
            if groups[-1] and axes[name] and held + parameter.numel() * parameter.element_size() > self._limit:
                groups.append([])
            groups[-1].append(parameter)
        return [(key, members) for key, groups in buckets.items() for members in groups]

    def _build_bucket(self, members: list[nn.Parameter], axes: tuple[str, ...]) -> Bucket:
        flat = torch.zeros(sum(member.numel() for member in members), device=members[0].device)
        bucket = Bucket(flat, axes, len(members))
        offset = 0
        for member in members:
            # The gradient has its parameter's strides, so that autograd adds without converting.
            member.grad = flat.as_strided(member.shape, member.stride(), offset)
            offset += member.numel()
        if axes and self._overlaps:
            for member in members:
                member.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._filled(bucket))
        return bucket

    def _filled(self, bucket: Bucket) -> None:
        bucket.missing -= 1
        if bucket.missing == 0:
            self._start(bucket)

    def _start(self, bucket: Bucket) -> None:
        if self._wire_dtype is not None:
            bucket.wire = bucket.flat.to(self._wire_dtype)
        bucket.handle = self._communicator.all_reduce(bucket.flat if bucket.wire is None else bucket.wire, bucket.axes)
