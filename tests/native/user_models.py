"""Networks of users' own, which know nothing of anycard; some of them unfit."""

from __future__ import annotations

import torch
from torch import nn


class Plain(nn.Module):
    """Neither buffers nor random numbers, and one parameter that no step uses."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.fc1 = nn.Linear(28 * 28, hidden)
        self.fc2 = nn.Linear(hidden, 10)
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.tanh(self.fc1(images.view(len(images), -1))))


class Everything(nn.Module):
    """Batch norm, dropout, a frozen and a shared parameter, and buffers of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5))
        self.twin = self.inner[0]
        self.scale = nn.Parameter(torch.rand(6), requires_grad=False)
        self.fc = nn.Linear(6, 3)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("table", torch.rand(6, dtype=torch.float64))
        self.register_buffer("scratch", torch.rand(6), persistent=False)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.steps += 1
        return self.fc(self.twin(self.inner(samples)) * self.scale + self.scratch + self.table.float())


class Tokens(nn.Module):
    """Takes token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 8)
        self.fc = nn.Linear(8, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.fc(self.embedding(ids).mean(1))


class Broken(nn.Module):
    """Fails in its constructor or, by another argument, gives a wrong output or has what cannot be trained."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.fc = nn.Linear(6, 4 if fault == "shape" else 3)
        if fault == "constructor":
            raise KeyError("a key of the user's")
        if fault == "nothing to train":
            self.requires_grad_(False)
        if fault == "half":
            self.half()
        if fault == "lazy":
            self.more = nn.LazyLinear(3)

    def get_extra_state(self) -> object:
        """Returns a state beside the tensors."""
        return {"fault": self.fault}

    def set_extra_state(self, state: object) -> None:
        """Takes it."""

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        if self.fault == "forward":
            raise ZeroDivisionError("the user's division")
        return self.fc(samples)


class Stateless(Broken):
    """`Broken` without a state beside the tensors."""

    get_extra_state = nn.Module.get_extra_state
    set_extra_state = nn.Module.set_extra_state


def no_class() -> nn.Module:
    """Returns a module, and is no class."""
    return Plain()
