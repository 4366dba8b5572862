"""Full host tensors and the parts of them that live on this rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from core.contracts import Communicator
from core.layout import Layout
from core.spec import ModelSpec

Arrays = Mapping[str, npt.NDArray[np.float32]]


class FullTensors:
    """Cuts full tensors into this rank's parts, and joins the parts of all ranks.

    Args:
        spec: The model, which knows every parameter's full shape.
        layout: Where the parts lie.
        rank: This rank.
        communicator: Open on the layout's mesh.
    """

    def __init__(self, spec: ModelSpec, layout: Layout, rank: int, communicator: Communicator[torch.Tensor]) -> None:
        self._specs = {parameter.name: parameter for parameter in spec.parameters}
        self._layout = layout
        self._rank = rank
        self._communicator = communicator

    def scatter(self, full: Arrays, targets: Mapping[str, torch.Tensor]) -> None:
        """Fills this rank's tensors with their parts of the full ones."""
        for name, target in targets.items():
            target.copy_(self._part(full[name], name))

    def local(self, full: Arrays, like: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns this rank's parts of full tensors, on the device and with the strides of `like`."""
        return {name: torch.empty_like(tensor).copy_(self._part(full[name], name)) for name, tensor in like.items()}

    def gather(self, parts: Mapping[str, torch.Tensor]) -> dict[str, npt.NDArray[np.float32]]:
        """Returns the full tensors of which every rank holds a part; collective."""
        return {name: self._whole(parts[name], name) for name in self._specs}

    def _part(self, full: npt.NDArray[np.float32], name: str) -> torch.Tensor:
        part = full[self._layout.local_slices(self._specs[name], self._rank)]
        return torch.from_numpy(np.ascontiguousarray(part))

    def _whole(self, part: torch.Tensor, name: str) -> npt.NDArray[np.float32]:
        tensor = part.detach()
        for axis, dim in reversed(list(self._layout.shards(name))):
            if self._layout.mesh.size(axis) > 1:
                tensor = self._communicator.all_gather(tensor, axis, dim)
        full: npt.NDArray[np.float32] = tensor.contiguous().cpu().numpy().copy()
        return full
