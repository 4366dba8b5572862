"""Batch norm over this rank's rows or over those of all parts of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from core.contracts import Communicator
from plugins.torch_npu_backend.step_context import StepContext

DIMS = (0, 2, 3)


@dataclass
class Statistics:
    """The statistics of one pass, by which the running ones will move.

    Attributes:
        mean: (C,), float32.
        var: (C,), divided by n - 1.
        weight: This rank's share of the batch's rows, 1.0 where the statistics are over all of them.
    """

    mean: torch.Tensor
    var: torch.Tensor
    weight: float


class BatchNorm2d(nn.Module):
    """`core.spec.BatchNorm2d` on one rank; collective over the batch's axes when synchronized.

    The running statistics move only when the engine calls `BatchStatistics.commit`, so that a step that is skipped
    leaves no trace in them.

    Args:
        num_features: Channels.
        eps: Added to the variance.
        axes: The axes to synchronize over, those of more than one card; none for this rank's rows alone.
        is_ordered: Whether sums over the parts are taken in the parts' order, on any number of cards.
        communicator: Open on the layout's mesh.
        context: Of the step.
    """

    def __init__(
        self,
        num_features: int,
        eps: float,
        axes: tuple[str, ...],
        is_ordered: bool,
        communicator: Communicator[torch.Tensor],
        context: StepContext,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_features))
        self.bias = nn.Parameter(torch.empty(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.eps = eps
        self.axes = axes
        self.is_ordered = is_ordered
        self.communicator = communicator
        self.context = context
        self.observed: list[Statistics] = []

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return normalize_together([self], [tensor])[0]

    def evaluate(self, tensor: torch.Tensor) -> torch.Tensor:
        """Normalises by the running statistics."""
        return F.batch_norm(
            tensor, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )

    def normalize_whole(self, tensor: torch.Tensor) -> torch.Tensor:
        """Normalises by the statistics of this rank's rows, none of which is padding."""
        mean, var = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        output = F.batch_norm(tensor, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        self.observed.append(Statistics(mean, var, self._share))  # momentum 1: they hold this pass's alone
        return output

    def observe(self, mean: torch.Tensor, squares: torch.Tensor, num_elements: int) -> None:
        """Takes the statistics of a pass: mean, sum of squared distances from it, and over how many numbers."""
        self.observed.append(Statistics(mean, squares / max(1, num_elements - 1), self._share))

    @property
    def _share(self) -> float:
        mine, everyone = sum(self.context.own_counts), sum(self.context.counts)
        return 1.0 if self.axes else mine / everyone

    @property
    def counts(self) -> list[int]:
        """Real rows of the parts that are normalised together."""
        return self.context.counts if self.axes else self.context.own_counts


def normalize_together(norms: Sequence[BatchNorm2d], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the outputs of one layer's replicas, each on its part of this rank's rows."""
    norm = norms[0]
    if not norm.training:
        return [norm.evaluate(tensor) for tensor in tensors]
    if not norm.axes and not norm.is_ordered and norm.context.own_counts == [len(tensors[0])]:
        return [norm.normalize_whole(tensors[0])]
    weights, biases = [each.weight for each in norms], [each.bias for each in norms]
    return list(_Normalized.apply(norm, *tensors, *weights, *biases))


class _Normalized(torch.autograd.Function):
    """Batch norm by its formulas, in float32, over the real rows of one or all parts of the batch.

    The parts' means and squared distances are gathered and combined, which loses no digits to cancellation; the
    backward pass sums the gradient's mean and its correlation with the normalised activation over the parts.

    Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    """

    @staticmethod
    def forward(ctx: Any, norm: BatchNorm2d, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = len(arguments) // 3
        tensors, weights, biases = (arguments[size * i : size * (i + 1)] for i in range(3))
        rows = norm.context.own_counts
        area = tensors[0].shape[2] * tensors[0].shape[3]
        parts = torch.stack([_moments(tensor[:real]) for tensor, real in zip(tensors, rows, strict=True)])
        for axis in norm.axes:
            parts = norm.communicator.all_gather(parts, axis, 0)
        counts = norm.counts
        total = max(1, sum(counts)) * area
        shares = torch.tensor([count * area for count in counts], dtype=torch.float32, device=parts.device)[:, None]
        mean = (parts[:, 0] * shares).sum(0) / total
        squares = (parts[:, 1] + shares * (parts[:, 0] - mean) ** 2).sum(0)
        norm.observe(mean, squares, total)
        inverse = torch.rsqrt(squares / total + norm.eps)
        scale = weights[0] * inverse
        shift = biases[0] - mean * scale
        ctx.norm, ctx.rows, ctx.total = norm, rows, total
        ctx.save_for_backward(weights[0], mean, inverse, *tensors)
        return tuple((t.float() * scale[:, None, None] + shift[:, None, None]).to(t.dtype) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        weight, mean, inverse, *tensors = ctx.saved_tensors
        norm: BatchNorm2d = ctx.norm
        real = [gradient[:count].float() for gradient, count in zip(gradients, ctx.rows, strict=True)]
        normalized = [
            (tensor[:count].float() - mean[:, None, None]) * inverse[:, None, None]
            for tensor, count in zip(tensors, ctx.rows, strict=True)
        ]
        own = torch.stack(
            [torch.stack([g.sum(DIMS), (g * x).sum(DIMS)]) for g, x in zip(real, normalized, strict=True)]
        )
        sums = _sum_over_parts(norm, own) / ctx.total
        inputs = []
        for gradient, g, x in zip(gradients, real, normalized, strict=True):
            spread = g - sums[0][:, None, None] - x * sums[1][:, None, None]
            filled = torch.zeros_like(gradient)
            filled[: len(g)] = ((weight * inverse)[:, None, None] * spread).to(gradient.dtype)
            inputs.append(filled)
        return (None, *inputs, *own[:, 1].unbind(), *own[:, 0].unbind())


def _moments(real: torch.Tensor) -> torch.Tensor:
    """Returns the mean and the sum of squared distances from it of each channel, (2, C); zeros without rows."""
    channels = real.shape[1]
    if not len(real):
        return torch.zeros(2, channels, device=real.device)
    var, mean = torch.var_mean(real.float(), DIMS, correction=0)
    return torch.stack([mean, var * (real.numel() // channels)])


def _sum_over_parts(norm: BatchNorm2d, own: torch.Tensor) -> torch.Tensor:
    """Returns the sum of (num_own_parts, 2, C) over all parts; collective where they lie on several cards."""
    if not norm.axes:
        return own.sum(0)
    if norm.is_ordered:
        for axis in norm.axes:
            own = norm.communicator.all_gather(own, axis, 0)
        return own.sum(0)
    sums = own.sum(0)
    norm.communicator.all_reduce(sums, norm.axes).wait()
    return sums


class BatchStatistics:
    """The running statistics of all batch norms of a model.

    Args:
        norms: The model's batch norms with their momentum.
        axes: The axes that split the batch, those of more than one card.
        communicator: Open on the layout's mesh.
    """

    def __init__(
        self,
        norms: list[tuple[BatchNorm2d, float]],
        axes: tuple[str, ...],
        communicator: Communicator[torch.Tensor],
    ) -> None:
        self._norms = norms
        self._local = [norm for norm, _ in norms if not norm.axes] if axes else []
        self._axes = axes
        self._communicator = communicator

    def discard(self) -> None:
        """Forgets what the passes of a skipped step saw."""
        for norm, _ in self._norms:
            norm.observed.clear()

    @torch.no_grad()
    def commit(self) -> None:
        """Moves the running statistics by what the passes of this step saw, one after the other.

        Those of norms that are not synchronized are averaged over the parts first; collective then.
        """
        if self._local:
            seen = [observed for norm in self._local for observed in norm.observed]
            flat = torch.cat([torch.cat([one.mean, one.var]) * one.weight for one in seen])
            self._communicator.all_reduce(flat, self._axes).wait()
            for one, averaged in zip(seen, flat.split([2 * len(one.mean) for one in seen]), strict=True):
                one.mean, one.var = averaged.chunk(2)
        for norm, momentum in self._norms:
            for observed in norm.observed:
                norm.running_mean.lerp_(observed.mean, momentum)
                norm.running_var.lerp_(observed.var, momentum)
            norm.observed.clear()
