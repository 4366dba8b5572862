"""The engine: the model, the step and the optimizer on one rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from core.contracts import Engine, EngineRequest, EvaluationTotals, TrainingState, Window, WindowResult
from core.contracts.engine import PADDING_LABEL
from core.contracts.transforms import draw_choices
from core.spec import ParameterSpec
from plugins.torch_npu_backend.gradients import Gradients
from plugins.torch_npu_backend.lowering import as_model_input, build_model, is_image_model
from plugins.torch_npu_backend.norm_clip import NormClip
from plugins.torch_npu_backend.transforms import Transforms
from plugins.torch_npu_backend.updates import Update


class TorchEngine(Engine):
    """Eager PyTorch; one code path for cpu, cuda and npu.

    Args:
        request: From what to build.
        device: This rank's device.
    """

    def __init__(self, request: EngineRequest, device: torch.device) -> None:
        self._request = request
        self._layout = request.layout
        self._communicator = request.communicator
        self._device = device
        self._transforms = Transforms(request.transforms).to(device)
        self._model = build_model(request).to(device)
        self._channels_last = is_image_model(self._model)
        named = dict(self._model.named_parameters())
        self._parameters = {parameter.name: named[parameter.name] for parameter in request.spec.parameters}
        mesh = request.layout.mesh
        axes = {
            name: tuple(axis for axis in found if mesh.size(axis) > 1)
            for name, found in request.flow.gradient_axes.items()
        }
        self._step = request.step
        self._gradients = Gradients(self._parameters, axes, request.communicator)
        self._update = Update(request.step.optimizer, self._parameters)
        self._clip = (
            NormClip(request.step.clip_norm, self._parameters, request.layout, request.communicator)
            if request.step.clip_norm is not None
            else None
        )
        self._num_updates = 0
        self._traffic: Counter[tuple[str, int]] = Counter()

    def load(self, state: TrainingState) -> None:
        with torch.no_grad():
            for spec in self._request.spec.parameters:
                self._fill(self._parameters[spec.name], state.parameters[spec.name], spec)
                for slot, tensors in self._update.slots.items():
                    full = state.slots.get(slot, {}).get(spec.name)
                    if full is None:
                        tensors[spec.name].zero_()
                    else:
                        self._fill(tensors[spec.name], full, spec)
        self._num_updates = state.num_updates
        self._update.set_num_updates(state.num_updates)

    def gather(self) -> TrainingState:
        with torch.no_grad():
            return TrainingState(
                parameters={spec.name: self._full(self._parameters[spec.name], spec) for spec in self._specs},
                slots={
                    slot: {spec.name: self._full(tensors[spec.name], spec) for spec in self._specs}
                    for slot, tensors in self._update.slots.items()
                },
                num_updates=self._num_updates,
            )

    def train(self, window: Window, lr: npt.NDArray[np.float64]) -> WindowResult:
        before = Counter(self._communicator.payload_bytes)
        samples, labels = self._to_device(window)
        counts = window.global_counts.tolist()
        losses = torch.zeros(window.num_steps, device=self._device)
        correct = torch.zeros(window.num_steps, dtype=torch.int64, device=self._device)
        skipped = 0
        parts = self._step.accumulate
        choices = self._choices(window)
        for step, (batch, wanted) in enumerate(zip(samples, labels, strict=True)):
            self._gradients.zero(parts)
            for part, (rows, targets) in enumerate(zip(batch.chunk(parts), wanted.chunk(parts), strict=True)):
                place = slice(part * len(rows), (part + 1) * len(rows))
                drawn = [None if choice is None else choice[step, place] for choice in choices]
                logits = self._model(self._prepare(rows, drawn))
                loss = self._loss(logits, targets, self._step.label_smoothing) / counts[step]
                loss.backward()
                with torch.no_grad():
                    losses[step] += loss.detach()
                    correct[step] += (logits.argmax(1) == targets).sum()
            self._gradients.reduce()
            if self._step.skip_non_finite and not self._all_finite(losses[step]):
                skipped += 1
                continue
            if self._clip is not None:
                self._gradients.scale(self._clip.factor())
            self._num_updates += 1
            self._update.apply(float(lr[step]))
        self._traffic += self._communicator.payload_bytes - before
        sums = self._sum_over_batch(np.concatenate([losses.cpu().double().numpy(), correct.cpu().double().numpy()]))
        return WindowResult(sums[: window.num_steps], np.rint(sums[window.num_steps :]).astype(np.int64), skipped)

    def evaluate(self, window: Window) -> EvaluationTotals:
        samples, labels = self._to_device(window)
        totals = torch.zeros(3, dtype=torch.float64)
        with torch.no_grad():
            for batch, wanted in zip(samples, labels, strict=True):
                logits = self._model(self._prepare(batch, None))
                loss = self._loss(logits, wanted, 0.0)
                correct = (logits.argmax(1) == wanted).sum()
                count = (wanted != PADDING_LABEL).sum()
                totals += torch.stack([part.double().cpu() for part in (loss, correct, count)])
        loss_sum, num_correct, num = self._sum_over_batch(totals.numpy())
        return EvaluationTotals(float(loss_sum), round(num_correct), round(num))

    def local_tensors(self) -> Mapping[str, tuple[int, ...]]:
        return {name: tuple(parameter.shape) for name, parameter in self._parameters.items()}

    def traffic(self) -> Mapping[tuple[str, int], int]:
        return dict(self._traffic)

    def close(self) -> None:
        self._parameters.clear()

    @staticmethod
    def _loss(logits: torch.Tensor, labels: torch.Tensor, label_smoothing: float) -> torch.Tensor:
        """Returns the sum of the cross entropies of the rows that are no padding."""
        return F.cross_entropy(
            logits, labels, ignore_index=PADDING_LABEL, reduction="sum", label_smoothing=label_smoothing
        )

    @property
    def _specs(self) -> tuple[ParameterSpec, ...]:
        return self._request.spec.parameters

    def _to_device(self, window: Window) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns a window's samples and labels on the device."""
        return tuple(  # type: ignore[return-value]
            torch.from_numpy(array).to(self._device, non_blocking=True) for array in (window.samples, window.labels)
        )

    def _choices(self, window: Window) -> list[torch.Tensor | None]:
        """Returns each transform's choices for this rank's rows, (num_steps, rows, ...), None for a fixed one."""
        ids = window.ids[:, self._layout.batch_shard(self._request.rank.rank)]
        drawn = draw_choices(self._request.transforms, self._request.seed, window.epoch, ids.ravel())
        return [
            None if choice is None else torch.from_numpy(choice.reshape(*ids.shape, *choice.shape[1:])).to(self._device)
            for choice in drawn
        ]

    def _prepare(self, batch: torch.Tensor, choices: list[torch.Tensor | None] | None) -> torch.Tensor:
        return as_model_input(self._transforms(batch, choices), self._channels_last)

    def _all_finite(self, loss: torch.Tensor) -> bool:
        """Returns whether loss and gradients are finite on every rank; collective."""
        mine = bool(torch.isfinite(loss)) and self._gradients.are_finite()
        return bool(self._communicator.agree(np.array([float(mine)]), "min")[0])

    def _sum_over_batch(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Returns sums over the parts of the batch, each counted once though several ranks may hold it; collective."""
        copies = self._layout.mesh.num_cards // self._layout.num_batch_shards
        return self._communicator.agree(values, "sum") / copies

    def _fill(self, target: torch.Tensor, full: npt.NDArray[np.float32], spec: ParameterSpec) -> None:
        part = full[self._layout.local_slices(spec, self._request.rank.rank)]
        target.copy_(torch.from_numpy(np.ascontiguousarray(part)))

    def _full(self, local: torch.Tensor, spec: ParameterSpec) -> npt.NDArray[np.float32]:
        """Returns the full tensor of which this rank holds a part; collective."""
        tensor = local.detach()
        for axis, dim in reversed(list(self._layout.shards(spec.name))):
            if self._layout.mesh.size(axis) > 1:
                tensor = self._communicator.all_gather(tensor, axis, dim)
        full: npt.NDArray[np.float32] = tensor.contiguous().cpu().numpy().copy()
        return full
