"""Clipping gradients by the norm of the whole model, whatever its layout."""

from __future__ import annotations

import torch

from core.contracts import Communicator
from core.contracts.step import CLIP_EPS
from core.layout import Layout
from plugins.torch_npu_backend.gradients import Gradients, views_like


class NormClip:
    """The factor by which a step's gradients are scaled.

    Each card adds up the squares of its own parts; a part that several cards hold counts once, since each of them
    counts its share.

    Args:
        clip_norm: The largest norm that passes unchanged.
        parameters: By canonical name.
        gradients: Theirs.
        layout: Where they lie.
        communicator: Open on the layout's mesh.
    """

    def __init__(
        self,
        clip_norm: float,
        parameters: dict[str, torch.nn.Parameter],
        gradients: Gradients,
        layout: Layout,
        communicator: Communicator[torch.Tensor],
    ) -> None:
        self._clip_norm = clip_norm
        self._gradients: list[torch.Tensor] = []
        shares: list[float] = []
        for bucket in gradients.buckets:
            names = bucket.plan.names
            if bucket.plan.num_pieces > 1:
                self._gradients.append(bucket.piece)
                shares.append(1.0)
            else:
                self._gradients += views_like([parameters[name] for name in names], bucket.flat)
                shares += [1.0 / layout.num_copies(name) for name in names]
        self._shares = torch.tensor(shares, device=self._gradients[0].device)
        axes = (*layout.sharded_axes, *layout.state_axes)
        self._axes = tuple(axis for axis in axes if layout.mesh.size(axis) > 1)
        self._communicator = communicator

    @torch.no_grad()
    def factor(self) -> torch.Tensor:
        """Returns min(1, clip_norm / (norm + 1e-6)), a number on the device; collective over the sharded axes."""
        norms = torch.stack(torch._foreach_norm(self._gradients))
        squares = (norms.square() * self._shares).sum()
        if self._axes:
            self._communicator.all_reduce(squares, self._axes).wait()
        return (self._clip_norm / (squares.sqrt() + CLIP_EPS)).clamp(max=1.0)
