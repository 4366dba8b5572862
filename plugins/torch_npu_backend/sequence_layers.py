"""Layers over token ids and sequences of features."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from core.spec.sequence_layers import PADDING_TOKEN


class Embedding(nn.Module):
    """Rows of a table by token id; this card may hold a part of the table.

    Args:
        shape: The local table, (ids, features).
        first: The first id that is here.
        combine: What turns the cards' parts into the output; empty when the table is whole.
    """

    def __init__(self, shape: tuple[int, ...], first: int, combine: nn.Sequential) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))
        self.combine = combine
        self._first = first

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if len(self.combine) == 0:
            return F.embedding(ids, self.weight)
        local = ids - self._first
        is_here = (local >= 0) & (local < len(self.weight))
        found = F.embedding(local.clamp(0, len(self.weight) - 1), self.weight)
        return self.combine(found * is_here[..., None])


class AddPositions(nn.Module):
    """A learnt vector for each place of the sequence."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor + self.weight[: tensor.shape[1]]


class AddSegment(nn.Module):
    """The vector of the first segment."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor + self.weight[0]


class Attention(nn.Module):
    """Scaled dot-product attention over this card's heads.

    Args:
        num_heads: Heads here.
        dropout: Of the probabilities, (batch, heads, length, length); None for none.
    """

    def __init__(self, num_heads: int, dropout: nn.Module | None) -> None:
        super().__init__()
        self._num_heads = num_heads
        self.dropout = dropout

    def forward(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, ids: torch.Tensor
    ) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self._num_heads, -1)).transpose(1, 2) for part in (queries, keys, values))
        # The lowest finite number, not -inf: a row that is all padding would become NaN.
        hidden = torch.finfo(q.dtype).min
        mask = torch.zeros(ids.shape, dtype=q.dtype, device=q.device).masked_fill_(ids == PADDING_TOKEN, hidden)
        mask = mask[:, None, None, :]
        if self.dropout is None or not self.training:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + mask
            mixed = self.dropout(scores.softmax(-1)) @ v
        return mixed.transpose(1, 2).flatten(2)


class FirstToken(nn.Module):
    """The features of the first place."""

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor[:, 0]
