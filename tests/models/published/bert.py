"""BERT for sequence classification in plain torch, with Hugging Face's names."""

from __future__ import annotations

import torch
from torch import nn


class Node(nn.Module):
    """A module that only holds others, for the sake of their names."""

    def __init__(self, /, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)


def layer(hidden: int) -> Node:
    def norm() -> nn.LayerNorm:
        return nn.LayerNorm(hidden, 1e-12)

    def linear(inputs: int, outputs: int) -> nn.Linear:
        return nn.Linear(inputs, outputs)

    own = Node(query=linear(hidden, hidden), key=linear(hidden, hidden), value=linear(hidden, hidden))
    attention = Node(self=own, output=Node(dense=linear(hidden, hidden), LayerNorm=norm()))
    intermediate = Node(dense=linear(hidden, 4 * hidden))
    output = Node(dense=linear(4 * hidden, hidden), LayerNorm=norm())
    return Node(attention=attention, intermediate=intermediate, output=output)


class Bert(nn.Module):
    def __init__(self, num_layers: int, hidden: int, heads: int, vocabulary: int, num_classes: int) -> None:
        super().__init__()
        self.heads = heads
        embeddings = Node(
            word_embeddings=nn.Embedding(vocabulary, hidden, padding_idx=0),
            position_embeddings=nn.Embedding(512, hidden),
            token_type_embeddings=nn.Embedding(2, hidden),
            LayerNorm=nn.LayerNorm(hidden, 1e-12),
        )
        encoder = Node(layer=nn.ModuleList([layer(hidden) for _ in range(num_layers)]))
        self.bert = Node(embeddings=embeddings, encoder=encoder, pooler=Node(dense=nn.Linear(hidden, hidden)))
        self.classifier = nn.Linear(hidden, num_classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        e = self.bert.embeddings
        positions = torch.arange(ids.shape[1])
        x = e.word_embeddings(ids) + e.position_embeddings(positions) + e.token_type_embeddings(torch.zeros_like(ids))
        x = e.LayerNorm(x)
        hidden = (ids == 0)[:, None, None, :]
        for block in self.bert.encoder.layer:
            own = block.attention.self
            q, k, v = (
                part(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for part in (own.query, own.key, own.value)
            )
            scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(hidden, torch.finfo(x.dtype).min)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            x = block.attention.output.LayerNorm(block.attention.output.dense(mixed) + x)
            inner = nn.functional.gelu(block.intermediate.dense(x))
            x = block.output.LayerNorm(block.output.dense(inner) + x)
        return self.classifier(self.bert.pooler.dense(x[:, 0]).tanh())
