"""The optimizers' update rules, on torch's own kernels.

The functional forms are called, not the `torch.optim` classes: constructing one of those imports torch._dynamo, which
takes a second and 75 MB of memory on each rank (torch 2.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from core.contracts import SGD, Adam, AdamW, Optimizer
from core.errors import SpecError

FUSED_DEVICES = ("cpu", "cuda")


class Update:
    """Applies one rule to a list of parameters in place.

    Args:
        rule: The rule with its settings.
        parameters: By name.
        gradients: By the same names; they must stay the same tensors.
    """

    def __init__(
        self, rule: Optimizer, parameters: Mapping[str, torch.Tensor], gradients: Mapping[str, torch.Tensor]
    ) -> None:
        if not isinstance(rule, (Adam, SGD)):
            raise SpecError(f"Backend 'torch_npu' has no update rule '{rule.name}'.", allowed="adam, adamw, sgd")
        self._rule = rule
        self._parameters = list(parameters.values())
        self._gradients = [gradients[name] for name in parameters]
        self.slots = {
            slot: {name: torch.zeros_like(parameter) for name, parameter in parameters.items()} for slot in rule.slots
        }
        self._lists = {slot: list(tensors.values()) for slot, tensors in self.slots.items()}
        device = self._parameters[0].device
        is_fused = device.type in FUSED_DEVICES
        self._flavour: dict[str, Any] = {"fused": is_fused, "foreach": not is_fused}
        self._steps = [torch.zeros((), device=device if is_fused else None) for _ in self._parameters]

    def set_num_updates(self, count: int) -> None:
        """Sets the number of updates that were done before."""
        for step in self._steps:
            step.fill_(count)

    @torch.no_grad()
    def apply(self, lr: float) -> None:
        """Does one update with learning rate `lr`."""
        rule = self._rule
        if isinstance(rule, Adam):
            adam(
                self._parameters,
                self._gradients,
                self._lists["exp_avg"],
                self._lists["exp_avg_sq"],
                [],
                self._steps,
                **self._flavour,
                decoupled_weight_decay=isinstance(rule, AdamW),
                amsgrad=False,
                beta1=rule.beta1,
                beta2=rule.beta2,
                lr=lr,
                weight_decay=rule.weight_decay,
                eps=rule.eps,
                maximize=False,
            )
            return
        sgd(
            self._parameters,
            self._gradients,
            self._lists["momentum_buffer"],
            **self._flavour,
            weight_decay=rule.weight_decay,
            momentum=rule.momentum,
            lr=lr,
            dampening=0.0,
            nesterov=rule.nesterov,
            maximize=False,
        )
