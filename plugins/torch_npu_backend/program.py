"""Running the layers of a spec in order, each on the outputs that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from plugins.torch_npu_backend.batch_norm import BatchNorm2d, normalize_together

Key = tuple[object, ...]  # an output, or an output after the transitions that some layers ask for


@dataclass
class Node:
    """One module and where its inputs come from.

    Attributes:
        name: Of its output.
        module: The layer, or several in a chain.
        inputs: Keys of the values that it takes.
        moves: For each input the transitions that make it from an output, and that output's name; None where the input
            is an output as it is, or where an earlier node has made it already.
        dead: Keys that no later node takes.
    """

    name: str
    module: nn.Module
    inputs: tuple[Key, ...]
    moves: tuple[tuple[Key, nn.Module] | None, ...]
    dead: tuple[Key, ...] = ()


class Program(nn.Module):
    """The model of one rank.

    Args:
        nodes: In the order in which they run.
        source: Name of the samples.
        final: What is done to the last output.
        members: The modules that hold parameters and buffers, by the name of their layer; "" for a user's module, whose
            names stand as they are.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        source: str,
        final: nn.Module,
        members: dict[str, nn.Module],
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList([node.module for node in nodes])
        self.final = final
        self.nodes = _with_deaths(nodes)
        self.source: Key = (source,)
        self._members = members

    @property
    def parameters_by_name(self) -> dict[str, nn.Parameter]:
        """Parameters under their canonical names."""
        return {_joined(name, own): t for name, module in self._members.items() for own, t in module.named_parameters()}

    @property
    def buffers_by_name(self) -> dict[str, torch.Tensor]:
        """Buffers, and parameters that ask for no gradient, under their canonical names; other tensors once the model
        has moved to another device.
        """
        frozen = {name: t.detach() for name, t in self.parameters_by_name.items() if not t.requires_grad}
        buffers = {_joined(name, own): t for name, held in self._members.items() for own, t in held.named_buffers()}
        return frozen | buffers

    def member(self, layer: str) -> nn.Module:
        """Returns the module of a layer that holds parameters."""
        return self._members[layer]

    def share_buffers(self, other: Program) -> None:
        """Takes the buffers of another program of the same layers, which leaves them in memory once."""
        for name, module in self._members.items():
            for own, buffer in other.member(name).named_buffers():
                owner, _, leaf = own.rpartition(".")
                setattr(module.get_submodule(owner), leaf, buffer)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return run_together([self], [samples])[0]


def run_together(programs: Sequence[Program], samples: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Runs replicas of a model layer by layer, each on its own samples; batch norms see the samples of all.

    Returns:
        Each replica's output.
    """
    values: list[dict[Key, torch.Tensor]] = [
        {program.source: own} for program, own in zip(programs, samples, strict=True)
    ]
    outputs = list(samples)
    for nodes in zip(*(program.nodes for program in programs), strict=True):
        arguments = [_arguments(node, held) for node, held in zip(nodes, values, strict=True)]
        if isinstance(nodes[0].module, BatchNorm2d):
            outputs = normalize_together([node.module for node in nodes], [own[0] for own in arguments])
        else:
            outputs = [node.module(*own) for node, own in zip(nodes, arguments, strict=True)]
        for node, held, output in zip(nodes, values, outputs, strict=True):
            for key in node.dead:
                del held[key]
            held[(node.name,)] = output
    return [program.final(output) for program, output in zip(programs, outputs, strict=True)]


def _joined(layer: str, own: str) -> str:
    return f"{layer}.{own}" if layer else own


def _arguments(node: Node, held: dict[Key, torch.Tensor]) -> list[torch.Tensor]:
    """Returns a node's inputs, with those that move moved."""
    for key, made in zip(node.inputs, node.moves, strict=True):
        if made is not None:
            held[key] = made[1](held[made[0]])
    return [held[key] for key in node.inputs]


def _with_deaths(nodes: Sequence[Node]) -> list[Node]:
    """Returns the nodes with the values that each is the last to take, which are freed after it."""
    alive: set[Key] = {(nodes[-1].name,)}
    for node in reversed(nodes):
        taken = set(node.inputs) | {made[0] for made in node.moves if made is not None}
        node.dead = tuple(taken - alive)
        alive |= taken
    return list(nodes)
