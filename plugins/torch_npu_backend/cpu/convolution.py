"""Two ways to write a convolution with stride 1 as matrix products on batch-last activations.

Shapes: input (C, H, W, B), padded to (C, HP, WP, B); output (O, OH, OW, B); weight (O, C, K, K). Buffers belong to one
input shape and are used again at every step; a backward pass follows its own forward pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch


class Convolution(ABC):
    """One convolution for one input shape.

    Args:
        shape: The input's, (C, H, W, B).
        weight_shape: (O, C, K, K).
        padding: Zeros on each side.
        tile: Side of the square of neighbouring outputs that are computed as one; 1 for single outputs.
        needs_input_gradient: Whether `input_gradient` will be called.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        weight_shape: tuple[int, ...],
        padding: int,
        tile: int,
        needs_input_gradient: bool,
    ) -> None:
        channels, height, width, batch = shape
        self.out_channels, _, self.kernel, _ = weight_shape
        self.channels, self.batch, self.padding, self.tile = channels, batch, padding, tile
        self.height, self.width = height, width
        self.padded_height, self.padded_width = height + 2 * padding, width + 2 * padding
        self.out_height = self.padded_height - self.kernel + 1
        self.out_width = self.padded_width - self.kernel + 1
        self.padded = torch.zeros(channels, self.padded_height, self.padded_width, batch) if padding else None
        self.input_gradient_buffer = (
            torch.empty(channels, self.padded_height, self.padded_width, batch) if needs_input_gradient else None
        )

    def pad(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the input with its zeros around it."""
        if self.padded is None:
            return tensor.contiguous()
        inner = slice(self.padding, self.padding + self.height), slice(self.padding, self.padding + self.width)
        self.padded[:, inner[0], inner[1]] = tensor
        return self.padded

    @abstractmethod
    def forward(self, tensor: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Returns the outputs without bias, (O, OH, OW, B), or for tile T (T, T, O, OH/T, OW/T, B); a buffer."""

    @abstractmethod
    def weight_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        """Returns the gradient of the weight for that of the outputs, shaped as they are."""

    @abstractmethod
    def input_gradient(self, gradient: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Returns the gradient of the input; comes after `weight_gradient`, whose buffer it takes."""


class RowConvolution(Convolution):
    """Unfolds along the width alone, and adds up one product for each row of the kernel.

    With stride 1 the rows that a kernel row meets are a band of neighbouring columns of the unfolded input, so nothing
    is copied for it, and the unfolded input stays small enough for the cache.
    """

    def __init__(
        self, shape: tuple[int, ...], weight_shape: tuple[int, ...], padding: int, needs_input_gradient: bool
    ) -> None:
        super().__init__(shape, weight_shape, padding, 1, needs_input_gradient)
        k, line = self.kernel, self.out_width * self.batch
        self._unfolded = torch.empty(self.channels * k, self.padded_height * line)
        self._taps = self._unfolded.view(self.channels, k, self.padded_height, self.out_width, self.batch)
        row = self.padded_width * self.batch
        self._window = (self.padded_height * row, self.batch, row, self.batch, 1)
        self._bands = [self._unfolded[:, i * line : (i + self.out_height) * line] for i in range(k)]
        self._rows = torch.empty(k, self.channels * k, self.out_channels)
        self._output = torch.empty(self.out_channels, self.out_height * line)

    def forward(self, tensor: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        self._taps.copy_(self.pad(tensor).as_strided(self._taps.shape, self._window))
        rows = self._weight_rows(weight)
        torch.mm(rows[0], self._bands[0], out=self._output)
        for row, band in zip(rows[1:], self._bands[1:], strict=True):
            self._output.addmm_(row, band)
        return self._output.view(self.out_channels, self.out_height, self.out_width, self.batch)

    def weight_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        flat = gradient.view(self.out_channels, -1).t()
        for row, band in zip(self._rows, self._bands, strict=True):
            torch.mm(band, flat, out=row)  # the long factor first: MKL is faster at it than at the transpose
        k = self.kernel
        return self._rows.view(k, self.channels, k, self.out_channels).permute(3, 1, 0, 2)

    def input_gradient(self, gradient: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        flat = gradient.view(self.out_channels, -1)
        rows = self._weight_rows(weight)
        torch.mm(rows[0].t(), flat, out=self._bands[0])
        self._unfolded[:, self._bands[0].shape[1] :] = 0
        for row, band in zip(rows[1:], self._bands[1:], strict=True):
            band.addmm_(row.t(), flat)
        assert self.input_gradient_buffer is not None
        total = self.input_gradient_buffer.zero_()
        for j in range(self.kernel):
            total[:, :, j : j + self.out_width].add_(self._taps[:, j])
        p = self.padding
        return total[:, p : p + self.height, p : p + self.width]

    def _weight_rows(self, weight: torch.Tensor) -> torch.Tensor:
        """Returns the weight as one (O, C K) matrix for each row of the kernel."""
        return weight.permute(2, 0, 1, 3).reshape(self.kernel, self.out_channels, -1)


class TileConvolution(Convolution):
    """Computes a square of neighbouring outputs as the channels of one larger kernel.

    A kernel with few channels makes a product too thin to be fast. Here T x T neighbouring outputs become T T O
    channels of a kernel of K + T - 1, with zeros where a place is outside an output's own window. That costs
    ((K + T - 1) / K)^2 times the multiplications, and unfolds T T times fewer windows. The outputs of a pool's window
    come to lie in T T separate blocks. Without an input gradient: it is for the first layer.
    """

    def __init__(self, shape: tuple[int, ...], weight_shape: tuple[int, ...], padding: int, tile: int) -> None:
        super().__init__(shape, weight_shape, padding, tile, needs_input_gradient=False)
        size = self.kernel + tile - 1
        self._grid = (self.out_height // tile, self.out_width // tile)
        windows = self._grid[0] * self._grid[1] * self.batch
        self._unfolded = torch.empty(self.channels * size * size, windows)
        self._taps = self._unfolded.view(self.channels, size, size, *self._grid, self.batch)
        row = self.padded_width * self.batch
        self._window = (self.padded_height * row, row, self.batch, tile * row, tile * self.batch, 1)
        self._wide = torch.zeros(tile, tile, self.out_channels, self.channels, size, size)
        self._wide_gradient = torch.empty_like(self._wide)
        self._output = torch.empty(tile * tile * self.out_channels, windows)

    def forward(self, tensor: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        self._taps.copy_(self.pad(tensor).as_strided(self._taps.shape, self._window))
        for part in self._parts(self._wide):
            part.copy_(weight)
        torch.mm(self._wide.view(len(self._output), -1), self._unfolded, out=self._output)
        return self._output.view(self.tile, self.tile, self.out_channels, *self._grid, self.batch)

    def weight_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        flat = gradient.view(len(self._output), -1)
        torch.mm(flat, self._unfolded.t(), out=self._wide_gradient.view(len(self._output), -1))
        return torch.stack(self._parts(self._wide_gradient)).sum(0)

    def input_gradient(self, gradient: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a tiled convolution has no input gradient")

    def _parts(self, wide: torch.Tensor) -> list[torch.Tensor]:
        """Returns, for each output of a tile, the part of the wide kernel that is its own."""
        k, side = self.kernel, range(self.tile)
        return [wide[i, j, :, :, i : i + k, j : j + k] for i in side for j in side]
