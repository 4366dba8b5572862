"""Transitions of activations as differentiable operations."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from core.contracts import Communicator
from core.layout import Mesh, Transition
from core.layout.transition import ALL_TO_ALL


class Move(nn.Module):
    """One transition; its backward pass is the transition's adjoint. Collective over the transition's axis.

    Args:
        transition: What to do.
        communicator: Open on `mesh`.
        mesh: The cards.
        rank: This rank.
        dtype: What activations travel in; None for what they are in. Token ids travel as they are.
    """

    def __init__(
        self,
        transition: Transition,
        communicator: Communicator[torch.Tensor],
        mesh: Mesh,
        rank: int,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.transition = transition
        self.dtype = dtype
        self._communicator = communicator
        self._size = mesh.size(transition.axis)
        self._position = mesh.coordinates(rank)[transition.axis]

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return _Moved.apply(tensor, self)

    def run(self, collective: str, tensor: torch.Tensor, dim: int, other_dim: int) -> torch.Tensor:
        """Runs one collective on a tensor that autograd does not watch."""
        axis = self.transition.axis
        match collective:
            case "identity":
                return tensor.view_as(tensor)
            case "slice":
                return tensor.chunk(self._size, dim)[self._position]
            case "all_reduce":
                tensor = tensor.clone(memory_format=torch.contiguous_format)
                self._communicator.all_reduce(tensor, (axis,)).wait()
                return tensor
            case "all_gather":
                return self._communicator.all_gather(tensor, axis, dim)
            case "reduce_scatter":
                return self._communicator.reduce_scatter(tensor, axis, dim)
            case "all_to_all":
                return self._communicator.all_to_all(tensor, axis, dim, other_dim)
        raise AssertionError(collective)


class _Moved(torch.autograd.Function):
    """Autograd's side of `Move`."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, move: Move) -> torch.Tensor:
        ctx.move, ctx.dtype = move, tensor.dtype
        transition = move.transition
        if move.dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(move.dtype)
        return move.run(transition.forward, tensor, transition.dim, transition.other_dim)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        transition = ctx.move.transition
        dim, other_dim = transition.dim, transition.other_dim
        if transition.backward == ALL_TO_ALL:
            dim, other_dim = other_dim, dim
        return ctx.move.run(transition.backward, gradient, dim, other_dim).to(ctx.dtype), None
