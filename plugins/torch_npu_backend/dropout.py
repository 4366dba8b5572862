"""Dropout whose masks follow from seed, layer, epoch, sample and element, computed on the device."""

from __future__ import annotations

import math

import torch
from torch import nn

from core.randomness.counter import LANES, MASK, MULTIPLIERS, ROUNDS, WEYL, drop_threshold, dropout_key
from plugins.torch_npu_backend.step_context import StepContext, Whereabouts


class Dropout(nn.Module):
    """Zeroes elements of an activation; see `core.randomness.keep_mask` for which.

    Args:
        key: From `dropout_key`.
        probability: Of an element to be dropped.
        shape: The activation's full shape, without the batch dim.
        place: What of it lies here.
        split_dim: The dim of `shape` that is cut over the cards, where it is.
        context: Of the step.
    """

    def __init__(
        self,
        key: tuple[int, int],
        probability: float,
        shape: tuple[int, ...],
        place: Whereabouts,
        split_dim: int,
        context: StepContext,
    ) -> None:
        super().__init__()
        self._key, self._probability = key, probability
        self._shape, self._place, self._split_dim = shape, place, split_dim
        self._context = context

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self.training or not self._probability:
            return tensor
        return tensor * self._mask(tensor.dtype)

    def _mask(self, dtype: torch.dtype) -> torch.Tensor:
        """Returns what this rank's part is multiplied with: 0 or 1 / (1 - probability)."""
        ids = self._context.ids[list(self._place.shards)].flatten()
        size = math.prod(self._shape)
        parts = self._place.num_feature_parts
        if self._split_dim == 0 or parts == 1:  # this rank's elements are consecutive
            count = size // parts
            kept = keep_mask(
                self._key, self._probability, self._context.epoch, ids, self._place.feature_part * count, count
            )
            kept = kept.view(len(ids), self._shape[0] // parts, *self._shape[1:])
        else:
            whole = keep_mask(self._key, self._probability, self._context.epoch, ids, 0, size)
            kept = whole.view(len(ids), *self._shape).chunk(parts, self._split_dim + 1)[self._place.feature_part]
        return kept.to(dtype).mul_(1.0 / (1.0 - self._probability))


def layer_dropout(
    seed: int, layer: str, probability: float, shape: tuple[int, ...], place: Whereabouts, context: StepContext
) -> Dropout:
    """Returns the dropout of a layer whose activation is cut along its last dim, if at all."""
    return Dropout(dropout_key(seed, layer), probability, shape, place, len(shape) - 1, context)


def keep_mask(
    key: tuple[int, int], probability: float, epoch: int, ids: torch.Tensor, first: int, count: int
) -> torch.Tensor:
    """Returns which of the elements first .. first + count - 1 of each sample stay, bool (len(ids), count).

    Args:
        key: Of the layer.
        probability: Of an element to be dropped.
        epoch: From 0.
        ids: Of the samples, int64 (batch,).
        first: The first element, counted in row-major order over a sample's whole activation.
        count: How many.
    """
    begin, end = first // LANES, -(-(first + count) // LANES)
    blocks = torch.arange(begin, end, device=ids.device)[None, :]
    words = philox(key, blocks, (ids & MASK)[:, None], epoch)
    threshold = drop_threshold(probability)
    kept = torch.stack([(word >= threshold).expand(len(ids), end - begin) for word in words], dim=-1)
    return kept.flatten(1)[:, first - begin * LANES :][:, :count]


def philox(key: tuple[int, int], block: torch.Tensor, sample: torch.Tensor, epoch: int) -> list[torch.Tensor]:
    """Returns the four words for the counters (block, sample, 0, epoch): `core.randomness.counter.philox`.

    A product of two 32-bit words overflows int64's sign and keeps all its bits; the shift is arithmetic, so the upper
    word is masked.
    """
    c0, c1 = block, sample
    c2, c3 = torch.zeros_like(block[:1, :1]), torch.full_like(block[:1, :1], epoch)
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((second >> 32) & MASK) ^ c1 ^ k0,
            second & MASK,
            ((first >> 32) & MASK) ^ c3 ^ k1,
            first & MASK,
        )
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return [c0, c1, c2, c3]
