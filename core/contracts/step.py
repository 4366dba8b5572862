"""What happens in one training step, beside the model."""

from __future__ import annotations

from dataclasses import dataclass

from core.contracts.optimizer import Optimizer

CLIP_EPS = 1e-6


@dataclass(frozen=True)
class StepSpec:
    """One update, from the batch to the weights.

    The loss is the mean cross entropy over the real samples of the global batch. Each rank cuts its rows into
    `accumulate` equal parts in order, runs them one after the other and adds up their gradients; gradients travel once,
    after the last. Then, if `clip_norm` is set, g <- g min(1, clip_norm / (norm + 1e-6)), where norm is the Euclidean
    norm of all gradients of the model, whatever the layout. Then comes the optimizer's rule.

    Source: `torch.nn.functional.cross_entropy` (label_smoothing) and `torch.nn.utils.clip_grad_norm_`, 2.13.

    Attributes:
        optimizer: The update rule.
        accumulate: Parts into which a rank's batch is cut; it divides the rows.
        clip_norm: The largest norm that passes unchanged; None for no clipping.
        label_smoothing: Weight of the uniform distribution in the training targets, in [0, 1).
        skip_non_finite: Whether to skip the update of a step whose gradients are not finite, on all ranks alike.
    """

    optimizer: Optimizer
    accumulate: int = 1
    clip_norm: float | None = None
    label_smoothing: float = 0.0
    skip_non_finite: bool = False
