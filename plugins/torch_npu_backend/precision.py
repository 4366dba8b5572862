"""Mixed precision: where products are computed in 16 bits, and what activations travel in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from core.contracts import LossScale, Precision

COMPUTE_DTYPES = {Precision.amp_bf16: torch.bfloat16, Precision.amp_fp16: torch.float16}


class MixedPrecision:
    """The formats of a step on one device, and the loss scale.

    Args:
        precision: What the run asks for.
        device: This rank's.
    """

    def __init__(self, precision: Precision, device: torch.device) -> None:
        self._device = device
        self.compute_dtype = COMPUTE_DTYPES.get(precision)
        self.loss_scale = LossScale() if precision is Precision.amp_fp16 else None

    def compute(self) -> AbstractContextManager[None]:
        """Returns the context in which the model runs forward."""
        if self.compute_dtype is None:
            return nullcontext()
        return torch.autocast(self._device.type, dtype=self.compute_dtype)  # type: ignore[return-value]

    def load(self, loss_scale: LossScale | None) -> None:
        """Takes a saved loss scale; without one it starts anew."""
        if self.loss_scale is not None:
            self.loss_scale = loss_scale or LossScale()

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """Returns what the backward pass starts from."""
        return loss if self.loss_scale is None else loss * self.loss_scale.scale

    def stepped(self, is_finite: bool) -> None:
        """Moves the loss scale after a step."""
        if self.loss_scale is not None:
            self.loss_scale = self.loss_scale.after(is_finite)
