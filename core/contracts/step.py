"""What happens in one training step, beside the model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from core.contracts.optimizer import Optimizer

CLIP_EPS = 1e-6
EMA_SLOT = "ema"


class Precision(Enum):
    """The number formats of a step; weights, gradients and the update are float32 in all of them."""

    fp32 = "fp32"  # everything is float32
    amp_bf16 = "amp_bf16"  # products in bfloat16
    amp_fp16 = "amp_fp16"  # products in float16, with a dynamic loss scale

    @property
    def compute_bytes(self) -> int:
        """Bytes of a number of an activation that travels between cards."""
        return 4 if self is Precision.fp32 else 2


@dataclass(frozen=True)
class LossScale:
    """The factor of the loss under amp_fp16, which keeps small gradients above float16's smallest number.

    Source: `torch.amp.GradScaler` (2.13) with its defaults, after Micikevicius et al. 2018, arXiv:1710.03740.

    Attributes:
        scale: The factor, a power of two.
        good_steps: Updates since it last changed.
    """

    scale: float = 65536.0
    good_steps: int = 0

    def after(self, is_finite: bool) -> LossScale:
        """Returns the scale after a step: half of it when a gradient was not finite, twice after 2000 good steps."""
        if not is_finite:
            return LossScale(self.scale / 2.0)
        if self.good_steps + 1 == 2000:
            return LossScale(self.scale * 2.0)
        return LossScale(self.scale, self.good_steps + 1)


@dataclass(frozen=True)
class StepSpec:
    """One update, from the batch to the weights.

    The loss is the mean cross entropy over the real samples of the global batch. Each rank cuts its rows into
    `accumulate` equal parts in order, runs them one after the other and adds up their gradients; gradients travel once,
    after the last. Then, if `clip_norm` is set, g <- g min(1, clip_norm / (norm + 1e-6)), where norm is the Euclidean
    norm of all gradients of the model, whatever the layout. Then comes the optimizer's rule. Then, if `ema_decay` is
    set, average <- ema_decay average + (1 - ema_decay) weights, starting from the initial weights; evaluation runs the
    average.

    Under amp_fp16 the loss is multiplied by `LossScale.scale` and the gradients divided by it; a step with a gradient
    that is not finite updates nothing, on all ranks alike.

    Source: `torch.nn.functional.cross_entropy` (label_smoothing), `torch.nn.utils.clip_grad_norm_` and
    `torch.optim.swa_utils.get_ema_multi_avg_fn`, 2.13.

    Attributes:
        optimizer: The update rule.
        precision: Number formats.
        shards: The batch is computed in so many parts, a power of two, whatever the number of cards, which divides it;
            sums over the parts are taken pairwise, in one order: (1 + 2) + (3 + 4). So the weights come out the same
            to the last bit on 1, 2, ... cards. Batch norms see all parts. None: one part a card, summed as is fastest.
        accumulate: Parts into which a rank's batch is cut; it divides the rows.
        clip_norm: The largest norm that passes unchanged; None for no clipping.
        label_smoothing: Weight of the uniform distribution in the training targets, in [0, 1).
        ema_decay: Of the weights' moving average, in (0, 1); None for none.
        skip_non_finite: Whether to skip the update of a step whose gradients are not finite, on all ranks alike.
    """

    optimizer: Optimizer
    precision: Precision = Precision.fp32
    shards: int | None = None
    accumulate: int = 1
    clip_norm: float | None = None
    label_smoothing: float = 0.0
    ema_decay: float | None = None
    skip_non_finite: bool = False

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the tensors that a checkpoint holds for each parameter beside itself."""
        return (*self.optimizer.slots, *((EMA_SLOT,) if self.ema_decay is not None else ()))
