"""Convolution, max pool and ReLU as one module on batch-last activations."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from plugins.torch_npu_backend.cpu.convolution import Convolution, RowConvolution, TileConvolution
from plugins.torch_npu_backend.cpu.pool import Tournament, window_places, zero_outside

MOST_WORKSPACES = 2  # one for training and one for evaluation
FEW_CHANNELS = 16  # below this many outputs a product is thin, and tiles pay


class BatchLast(nn.Module):
    """(B, C, H, W) to (C, H, W, B)."""

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.permute(1, 2, 3, 0).contiguous()


class BatchFirst(nn.Module):
    """(C, H, W, B) to (B, C, H, W)."""

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.permute(3, 0, 1, 2).contiguous()


class SmallConv2d(nn.Module):
    """Conv2d with stride 1, then MaxPool2d, then ReLU, the last two if wanted.

    It stands for convolution, ReLU and pool in either order: bias, ReLU and maximum are all monotone, so they commute
    bit for bit, and so do their gradients.

    Args:
        weight_shape: (O, C, K, K).
        padding: Zeros on each side.
        pool: Side and stride of the pool's window; 1 for no pool.
        relu: Whether a ReLU belongs to it.
    """

    def __init__(self, weight_shape: tuple[int, ...], padding: int, pool: int, relu: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(weight_shape))
        self.bias = nn.Parameter(torch.empty(weight_shape[0]))
        self.padding, self.pool, self.relu = padding, pool, relu
        self._workspaces: dict[tuple[Any, ...], Convolution] = {}

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = _SmallConv2d.apply(tensor, self.weight, self.bias, self)
        return output

    def workspace(self, shape: tuple[int, ...], needs_input_gradient: bool) -> Convolution:
        """Returns the convolution for an input shape, made at the first use."""
        key = (shape, needs_input_gradient)
        if key not in self._workspaces:
            if len(self._workspaces) >= MOST_WORKSPACES:
                self._workspaces.clear()
            self._workspaces[key] = self._build(shape, needs_input_gradient)
        return self._workspaces[key]

    def _build(self, shape: tuple[int, ...], needs_input_gradient: bool) -> Convolution:
        weight_shape = tuple(self.weight.shape)
        sides = [size + 2 * self.padding - weight_shape[2] + 1 for size in shape[1:3]]
        is_thin = weight_shape[0] < FEW_CHANNELS and self.pool > 1 and all(side % self.pool == 0 for side in sides)
        if is_thin and not needs_input_gradient:
            return TileConvolution(shape, weight_shape, self.padding, self.pool)
        return RowConvolution(shape, weight_shape, self.padding, needs_input_gradient)


class _SmallConv2d(torch.autograd.Function):
    """Autograd's side of `SmallConv2d`."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, module: SmallConv2d
    ) -> torch.Tensor:
        convolution = module.workspace(tuple(tensor.shape), ctx.needs_input_grad[0])
        outputs = convolution.forward(tensor, weight)
        is_tiled = convolution.tile > 1
        places = list(outputs.flatten(0, 1)) if is_tiled else window_places(outputs, module.pool)
        tournament = Tournament(places)
        largest = tournament.forward()
        column = bias.view(-1, 1, 1, 1)
        result = largest + column if module.pool == 1 else largest.add_(column)
        if module.relu:
            result.relu_()
        ctx.module, ctx.convolution, ctx.outputs, ctx.tournament = module, convolution, outputs, tournament
        ctx.save_for_backward(weight, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor, None]:
        weight, result = ctx.saved_tensors
        module, convolution = ctx.module, ctx.convolution
        if module.relu:
            gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
        gradient = gradient.contiguous()
        bias_gradient = gradient.view(len(weight), -1).sum(1)
        outputs_gradient = gradient
        if module.pool > 1:
            outputs_gradient = ctx.outputs
            ctx.tournament.backward(gradient)
            if convolution.tile == 1:
                zero_outside(outputs_gradient, module.pool)
        weight_gradient = convolution.weight_gradient(outputs_gradient)
        input_gradient = convolution.input_gradient(outputs_gradient, weight) if ctx.needs_input_grad[0] else None
        return input_gradient, weight_gradient, bias_gradient, None
