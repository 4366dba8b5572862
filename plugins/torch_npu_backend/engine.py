"""The engine: the model, the step and the optimizer on one rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from core.contracts import Engine, EngineRequest, EvaluationTotals, TrainingState, Window, WindowResult
from core.contracts.engine import PADDING_ID, PADDING_LABEL
from core.contracts.step import EMA_SLOT
from core.contracts.transforms import draw_choices
from core.layout import gradient_buckets
from plugins.torch_npu_backend.average import Average
from plugins.torch_npu_backend.batch_norm import BatchStatistics
from plugins.torch_npu_backend.full_tensors import FullTensors
from plugins.torch_npu_backend.gradients import Gradients
from plugins.torch_npu_backend.lowering import (
    as_model_input,
    batch_norms,
    build_model,
    is_image_model,
    user_buffers,
)
from plugins.torch_npu_backend.norm_clip import NormClip
from plugins.torch_npu_backend.optimizer_state import OptimizerState
from plugins.torch_npu_backend.precision import MixedPrecision
from plugins.torch_npu_backend.program import Program, run_together
from plugins.torch_npu_backend.step_context import StepContext, parts_per_card
from plugins.torch_npu_backend.transforms import Transforms
from plugins.torch_npu_backend.user_buffers import UserBuffers

Choices = list[torch.Tensor | None]


class TorchEngine(Engine):
    """Eager PyTorch; one code path for cpu, cuda and npu.

    Args:
        request: From what to build.
        device: This rank's device.
    """

    def __init__(self, request: EngineRequest, device: torch.device) -> None:
        spec, layout, communicator = request.spec, request.layout, request.communicator
        self._request = request
        self._layout = layout
        self._communicator = communicator
        self._device = device
        self._shard = layout.batch_shard(request.rank.rank)
        self._transforms = Transforms(request.transforms).to(device)
        self._context = StepContext()
        self._model = build_model(request, self._context).to(device)
        self._channels_last = is_image_model(self._model)
        named, buffers = self._model.parameters_by_name, self._model.buffers_by_name
        self._parameters = {parameter.name: named[parameter.name] for parameter in spec.parameters}
        self._buffers = {buffer.name: buffers[buffer.name] for buffer in spec.buffers}
        self._full = FullTensors(spec, layout, request.rank.rank, communicator)
        self._step = request.step
        self._precision = MixedPrecision(request.step.precision, device)
        buckets = gradient_buckets(spec, layout, request.flow, communicator.options.bucket_mb)
        is_ordered = request.step.shards is not None
        self._gradients = Gradients(self._parameters, buckets, communicator, layout.mesh, is_ordered)
        self._optimizer = OptimizerState(
            request.step.optimizer, self._parameters, self._gradients, communicator, self._shard
        )
        split_axes = tuple(axis for axis in layout.batch_axes if layout.mesh.size(axis) > 1)
        self._statistics = BatchStatistics(batch_norms(spec, self._model), split_axes, communicator)
        may_skip = request.step.skip_non_finite or self._precision.loss_scale is not None
        moving = [self._buffers[name] for name in user_buffers(spec)]
        self._user_buffers = UserBuffers(moving, split_axes, communicator, may_skip)
        decay, clip_norm = request.step.ema_decay, request.step.clip_norm
        self._average = None if decay is None else Average(decay, self._parameters)
        self._clip = (
            None if clip_norm is None else NormClip(clip_norm, self._parameters, self._gradients, layout, communicator)
        )
        self._models = [self._model, *self._build_replicas()]
        self._num_updates = 0
        self._traffic: Counter[tuple[str, int]] = Counter()

    def _build_replicas(self) -> Iterator[Program]:
        """Yields a model for each further part of this rank's rows, with the same weights and its own gradients."""
        for part in range(1, parts_per_card(self._request)):
            replica = build_model(self._request, self._context, part).to(self._device)
            named = replica.parameters_by_name
            for name, parameter in self._parameters.items():
                named[name].data = parameter.data
            replica.share_buffers(self._model)
            self._gradients.add_replica(named)
            yield replica

    @torch.no_grad()
    def load(self, state: TrainingState) -> None:
        self._full.scatter(state.parameters, self._parameters)
        for name, buffer in self._buffers.items():
            buffer.copy_(torch.from_numpy(state.buffers[name]))
        for slot in self._optimizer.slots:
            full = state.slots.get(slot)
            self._optimizer.load(slot, self._full.local(full, self._parameters) if full else None)
        if self._average is not None:
            self._full.scatter(state.slots.get(EMA_SLOT) or state.parameters, self._average.tensors)
        self._precision.load(state.loss_scale)
        self._num_updates = state.num_updates
        self._optimizer.set_num_updates(state.num_updates)

    @torch.no_grad()
    def gather(self) -> TrainingState:
        slots = {slot: self._full.gather(self._optimizer.local(slot)) for slot in self._optimizer.slots}
        if self._average is not None:
            slots[EMA_SLOT] = self._full.gather(self._average.tensors)
        return TrainingState(
            parameters=self._full.gather(self._parameters),
            buffers={name: buffer.cpu().numpy().copy() for name, buffer in self._buffers.items()},
            slots=slots,
            num_updates=self._num_updates,
            loss_scale=self._precision.loss_scale,
        )

    def train(self, window: Window, lr: npt.NDArray[np.float64]) -> WindowResult:
        before = Counter(self._communicator.payload_bytes)
        for model in self._models:
            model.train()
        samples, labels, ids = self._to_device(window)
        choices = self._choices(window)
        losses = torch.zeros(window.num_steps, len(self._models), device=self._device)
        correct = torch.zeros(window.num_steps, dtype=torch.int64, device=self._device)
        skipped = 0
        rows = window.ids.shape[2] // self._step.accumulate
        self._context.epoch = window.epoch
        for step in range(window.num_steps):
            self._gradients.zero(self._step.accumulate)
            real = (window.ids[step] != PADDING_ID).sum(-1)
            begin = self._shard * len(self._models)
            self._user_buffers.begin(int(real[begin : begin + len(self._models)].sum()), int(real.sum()))
            for turn in range(self._step.accumulate):
                self._tell_layers(ids[step], window.ids[step], real, turn * rows, rows)
                starts = [place * window.ids.shape[2] + turn * rows for place in range(len(self._models))]
                places = [slice(start, start + rows) for start in starts]
                batches = [
                    self._prepare(samples[step, place], [None if one is None else one[step, place] for one in choices])
                    for place in places
                ]
                with self._precision.compute():
                    outputs = [output.float() for output in run_together(self._models, batches)]
                targets = [labels[step, place] for place in places]
                smoothing, count = self._step.label_smoothing, float(window.global_counts[step])
                found = [self._loss(*pair, smoothing) / count for pair in zip(outputs, targets, strict=True)]
                torch.autograd.backward([self._precision.scaled(loss) for loss in found])
                with torch.no_grad():
                    losses[step] += torch.stack(found).detach()
                    for output, wanted in zip(outputs, targets, strict=True):
                        correct[step] += (output.argmax(1) == wanted).sum()
            skipped += not self._update(losses[step].sum(), float(lr[step]))
        self._traffic += self._communicator.payload_bytes - before
        sums = self._sum_over_batch(
            np.concatenate([losses.cpu().double().sum(1).numpy(), correct.cpu().double().numpy()])
        )
        return WindowResult(sums[: window.num_steps], np.rint(sums[window.num_steps :]).astype(np.int64), skipped)

    def evaluate(self, window: Window) -> EvaluationTotals:
        self._model.eval()
        samples, labels, _ = self._to_device(window)
        totals = torch.zeros(3, dtype=torch.float64)
        with torch.no_grad(), nullcontext() if self._average is None else self._average.in_place():
            for batch, wanted in zip(samples, labels, strict=True):
                with self._precision.compute():
                    logits = self._model(self._prepare(batch, None)).float()
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

    def _update(self, loss: torch.Tensor, lr: float) -> bool:
        """Ends a step after its backward passes and returns whether it updated anything; collective."""
        self._gradients.reduce()
        scale = self._precision.loss_scale
        if self._step.skip_non_finite or scale is not None:
            is_finite = self._all_finite(loss)
            if scale is not None:
                self._gradients.scale(1.0 / scale.scale)
                self._precision.stepped(is_finite)
            if not is_finite:
                self._statistics.discard()
                self._user_buffers.discard()
                return False
        if self._clip is not None:
            self._gradients.scale(self._clip.factor())
        self._num_updates += 1
        self._optimizer.apply(lr)
        with torch.no_grad():
            self._statistics.commit()
            self._user_buffers.commit()
        if self._average is not None:
            self._average.follow()
        return True

    def _tell_layers(
        self,
        ids: torch.Tensor,
        host_ids: npt.NDArray[np.int64],
        real: npt.NDArray[np.int64],
        first: int,
        rows: int,
    ) -> None:
        """Tells the layers which samples the next pass runs: rows first .. first + rows - 1 of each part."""
        self._context.ids = ids[:, first : first + rows]
        self._context.counts = np.clip(real - first, 0, rows).tolist()
        begin = self._shard * len(self._models)
        end = begin + len(self._models)
        self._context.own_counts = self._context.counts[begin:end]
        self._context.own_first_ids = host_ids[begin:end, first].tolist()

    def _prepare(self, batch: torch.Tensor, choices: Choices | None) -> torch.Tensor:
        """Returns what the model takes for a batch of stored samples."""
        if self._request.spec.sample.vocabulary is not None:
            return batch
        return as_model_input(self._transforms(batch, choices), self._channels_last)

    @staticmethod
    def _loss(logits: torch.Tensor, labels: torch.Tensor, label_smoothing: float) -> torch.Tensor:
        """Returns the sum of the cross entropies of the rows that are no padding."""
        return F.cross_entropy(
            logits, labels, ignore_index=PADDING_LABEL, reduction="sum", label_smoothing=label_smoothing
        )

    def _to_device(self, window: Window) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns a window's samples, labels and ids on the device."""
        arrays = (window.samples, window.labels, window.ids)
        samples, labels, ids = (torch.from_numpy(array).to(self._device, non_blocking=True) for array in arrays)
        return samples, labels, ids

    def _choices(self, window: Window) -> Choices:
        """Returns each transform's choices for this rank's rows, (num_steps, rows, ...), None for a fixed one."""
        begin = self._shard * len(self._models)
        ids = window.ids[:, begin : begin + len(self._models)].reshape(window.num_steps, -1)
        drawn = draw_choices(self._request.transforms, self._request.seed, window.epoch, ids.ravel())
        return [
            None if choice is None else torch.from_numpy(choice.reshape(*ids.shape, *choice.shape[1:])).to(self._device)
            for choice in drawn
        ]

    def _all_finite(self, loss: torch.Tensor) -> bool:
        """Returns whether loss and gradients are finite on every rank; collective."""
        mine = bool(torch.isfinite(loss)) and self._gradients.are_finite()
        return bool(self._communicator.agree(np.array([float(mine)]), "min")[0])

    def _sum_over_batch(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Returns sums over the parts of the batch, each counted once though several ranks may hold it; collective."""
        copies = self._layout.mesh.num_cards // self._layout.num_batch_shards
        return self._communicator.agree(values, "sum") / copies
