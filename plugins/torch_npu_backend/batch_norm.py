"""Batch norm over this rank's rows or over those of all parts of the batch."""

from __future__ import annotations

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
        shard: Which part of the batch this rank has.
        communicator: Open on the layout's mesh.
        context: Of the step.
    """

    def __init__(
        self,
        num_features: int,
        eps: float,
        axes: tuple[str, ...],
        shard: int,
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
        self.communicator = communicator
        self.observed: list[Statistics] = []
        self._shard = shard
        self._context = context

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return F.batch_norm(
                tensor, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
            )
        counts = self._context.counts
        mine, all_rows = counts[self._shard], sum(counts)
        if not self.axes and mine == len(tensor):
            mean, var = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
            output = F.batch_norm(tensor, mean, var, self.weight, self.bias, True, 1.0, self.eps)
            self.observed.append(Statistics(mean, var, mine / all_rows))  # momentum 1: they hold this pass's alone
            return output
        return _Normalized.apply(tensor, self.weight, self.bias, self)

    def observe(self, mean: torch.Tensor, squares: torch.Tensor, num_elements: int) -> None:
        """Takes the statistics of a pass: mean, sum of squared distances from it, and over how many numbers."""
        counts = self._context.counts
        weight = 1.0 if self.axes else counts[self._shard] / sum(counts)
        self.observed.append(Statistics(mean, squares / max(1, num_elements - 1), weight))

    @property
    def rows(self) -> tuple[int, list[int]]:
        """This rank's real rows, and those of the parts that are normalised together."""
        counts = self._context.counts
        return counts[self._shard], counts if self.axes else [counts[self._shard]]


class _Normalized(torch.autograd.Function):
    """Batch norm by its formulas, in float32, over the real rows of one or all parts of the batch.

    The parts' means and squared distances are gathered and combined, which loses no digits to cancellation; the
    backward pass sums the gradient's mean and its correlation with the normalised activation over the parts.

    Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    """

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, module: BatchNorm2d
    ) -> torch.Tensor:
        mine, rows = module.rows
        area = tensor.shape[2] * tensor.shape[3]
        real = tensor[:mine].float()
        own = torch.zeros(1, 2, len(weight), device=tensor.device)
        if mine:
            var, mean = torch.var_mean(real, DIMS, correction=0)
            own[0, 0], own[0, 1] = mean, var * (mine * area)
        parts = own
        for axis in module.axes:
            parts = module.communicator.all_gather(parts, axis, 0)
        total = max(1, sum(rows)) * area
        shares = torch.tensor([count * area for count in rows], dtype=torch.float32, device=tensor.device)[:, None]
        mean = (parts[:, 0] * shares).sum(0) / total
        squares = (parts[:, 1] + shares * (parts[:, 0] - mean) ** 2).sum(0)
        module.observe(mean, squares, total)
        inverse = torch.rsqrt(squares / total + module.eps)
        scale = weight * inverse
        shift = bias - mean * scale
        output = (tensor.float() * scale[:, None, None] + shift[:, None, None]).to(tensor.dtype)
        ctx.module, ctx.mine, ctx.total = module, mine, total
        ctx.save_for_backward(tensor, weight, mean, inverse)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        tensor, weight, mean, inverse = ctx.saved_tensors
        mine = ctx.mine
        real = gradient[:mine].float()
        normalized = (tensor[:mine].float() - mean[:, None, None]) * inverse[:, None, None]
        sums = torch.stack([real.sum(DIMS), (real * normalized).sum(DIMS)])
        bias_gradient, weight_gradient = sums[0].clone(), sums[1].clone()
        if ctx.module.axes:
            ctx.module.communicator.all_reduce(sums, ctx.module.axes).wait()
        sums /= ctx.total
        input_gradient = torch.zeros_like(gradient)
        spread = real - sums[0][:, None, None] - normalized * sums[1][:, None, None]
        input_gradient[:mine] = ((weight * inverse)[:, None, None] * spread).to(gradient.dtype)
        return input_gradient, weight_gradient, bias_gradient, None


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
