"""Max pooling of batch-last activations over windows that do not overlap."""

from __future__ import annotations

import torch


class Tournament:
    """Finds the largest of several tensors element by element, and takes its gradient back.

    Neighbours play in pairs and a tie goes to the earlier one, so the gradient goes to the first largest place of a
    window in reading order, as `torch.nn.MaxPool2d` has it.

    Args:
        places: The window's places in reading order, views of one shape; `backward` overwrites them.
    """

    def __init__(self, places: list[torch.Tensor]) -> None:
        self._rounds = [places]

    def forward(self) -> torch.Tensor:
        """Returns the largest of the places, a new tensor unless there is but one place."""
        level = self._rounds[0]
        self._rounds = []
        while len(level) > 1:
            self._rounds.append(level)
            pairs = zip(level[::2], level[1::2], strict=False)
            level = [torch.maximum(left, right) for left, right in pairs] + level[len(level) // 2 * 2 :]
        return level[0]  # not kept: autograd's node would hold its own output, a cycle that only the collector frees

    def backward(self, gradient: torch.Tensor) -> None:
        """Replaces every place by its gradient."""
        gradients = [gradient]
        for level in reversed(self._rounds):
            below: list[torch.Tensor] = []
            for index, part in enumerate(gradients):
                if 2 * index + 1 == len(level):
                    below.append(part)  # had no partner
                    continue
                left, right = level[2 * index : 2 * index + 2]
                right.sub_(left)  # positive where the right one won
                torch.ops.aten.threshold_backward.grad_input(part, right, 0, grad_input=right)
                torch.sub(part, right, out=left)
                below += [left, right]
            gradients = below
        for place, part in zip(self._rounds[0], gradients, strict=True):
            if place.data_ptr() != part.data_ptr():
                place.copy_(part)


def window_places(outputs: torch.Tensor, size: int) -> list[torch.Tensor]:
    """Returns the places of every pool window of (O, H, W, B) as size x size views, in reading order."""
    height, width = outputs.shape[1] // size * size, outputs.shape[2] // size * size
    return [outputs[:, i:height:size, j:width:size] for i in range(size) for j in range(size)]


def zero_outside(outputs: torch.Tensor, size: int) -> None:
    """Clears the rows and columns of (O, H, W, B) that no window covers."""
    height, width = outputs.shape[1] // size * size, outputs.shape[2] // size * size
    if height < outputs.shape[1]:
        outputs[:, height:] = 0
    if width < outputs.shape[2]:
        outputs[:, :, width:] = 0
