"""The update rules of the contract are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

from core.contracts import SGD, Adam, AdamW
from core.errors import ConfigError

torch = pytest.importorskip("torch", reason="PyTorch is the definition's source; it is an extra")

CASES = [
    (Adam(lr=1e-2), lambda p: torch.optim.Adam(p, lr=1e-2)),
    (Adam(lr=1e-2, weight_decay=0.1, beta1=0.8), lambda p: torch.optim.Adam(p, 1e-2, (0.8, 0.999), weight_decay=0.1)),
    (AdamW(lr=1e-2, eps=1e-6), lambda p: torch.optim.AdamW(p, lr=1e-2, eps=1e-6)),
    (SGD(lr=1e-2, weight_decay=0.1), lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, weight_decay=0.1)),
    (SGD(lr=1e-2, nesterov=True), lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True)),
    (SGD(lr=1e-2, momentum=0.0), lambda p: torch.optim.SGD(p, lr=1e-2)),
]


@pytest.mark.parametrize(("rule", "build"), CASES)
def test_update_is_pytorchs(rule, build) -> None:
    random = np.random.default_rng(0)
    ours = random.normal(size=(3, 4))
    slots = {slot: np.zeros_like(ours) for slot in rule.slots}
    theirs = torch.nn.Parameter(torch.from_numpy(ours.copy()))
    optimizer = build([theirs])
    for step in range(1, 6):
        gradient = random.normal(size=(3, 4)) * 10.0 ** (2 - step)
        rule.update(ours, gradient, slots, step, rule.lr)
        theirs.grad = torch.from_numpy(gradient)
        optimizer.step()
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("values", [{"lr": -1}, {"beta1": 1.0}, {"eps": 0.0}, {"weight_decay": -1e-3}])
def test_settings_out_of_range_are_named(values) -> None:
    with pytest.raises(ConfigError, match=f"optimizer.{next(iter(values))}"):
        Adam(**values)
