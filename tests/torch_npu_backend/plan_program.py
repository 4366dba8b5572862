"""Trains every model for a step under each sharder and holds the plan against what is there; once a rank.

python -m tests.torch_npu_backend.plan_program SHARDER ...
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from core.config.assembly import build_step_size
from core.contracts import Adam, EngineRequest, Precision, RankInfo, StepSpec, Window
from core.contracts.communicator import CommunicatorOptions, Compression
from core.layout import Layout, Mesh, build_flow, step_payloads
from core.planning.memory import card_memory
from core.plugin_system import load_catalogue
from core.spec import ModelSpec
from plugins.torch_npu_backend.communicator import GlooCommunicator
from plugins.torch_npu_backend.engine import TorchEngine
from tests.models.small import small_models

BATCH, STEPS = 8, 1


@dataclass(frozen=True)
class Case:
    """What a step does beside the default."""

    step: dict[str, Any] = field(default_factory=dict)
    wire: dict[str, Any] = field(default_factory=dict)


CASES = {
    "default": Case(),
    "clip": Case({"clip_norm": 0.5}),
    "accumulate": Case({"accumulate": 2}),
    "average": Case({"ema_decay": 0.9}),
    "buckets": Case(wire={"bucket_mb": 0.05}),
    "compressed": Case(wire={"compress": Compression.fp16}),
    "mixed": Case({"precision": Precision.amp_bf16}),
    "together": Case(
        {"clip_norm": 0.5, "ema_decay": 0.9, "precision": Precision.amp_bf16, "skip_non_finite": True},
        {"bucket_mb": 0.5, "compress": Compression.fp16},
    ),
}
BIG = Case({"clip_norm": 0.5, "ema_decay": 0.9}, {"bucket_mb": 0.5, "compress": Compression.fp16})
SHARDED = {
    "parts": Case({"shards": 4}),
    "parts_together": Case(
        {"shards": 4, "accumulate": 2, "clip_norm": 0.5, "ema_decay": 0.9},
        {"bucket_mb": 0.05, "compress": Compression.fp16},
    ),
}


def cases(sharder: str, model: str) -> Iterator[tuple[str, Case]]:
    """Yields what is tried of a model: of a big one everything at once, in float32, which CPUs compute fast."""
    has_parts = sharder == "data_parallel"
    if model.startswith(("lenet5", "bert")):
        yield from CASES.items()
        if has_parts:
            yield from SHARDED.items()
        return
    yield "together", BIG
    if has_parts and model == "resnet18":
        yield "parts", SHARDED["parts"]


def main(*sharders: str) -> None:
    rank = RankInfo(int(os.environ["RANK"]), 0, int(os.environ["WORLD_SIZE"]), "cpu")
    torch.set_num_threads(1)
    wrong = [
        f"{sharder} {model} {name}: {what} planned {planned}, found {found}"
        for sharder in sharders
        for model, name, comparisons in tried(sharder, rank)
        for what, planned, found in comparisons
        if planned != found
    ]
    assert not wrong, "\n".join(wrong)
    torch.distributed.barrier()
    os._exit(0)


def tried(sharder: str, rank: RankInfo) -> Iterator[tuple[str, str, Iterator[tuple[str, object, object]]]]:
    """Yields each model and case with what it compares."""
    cls = load_catalogue().get("sharder", sharder)
    plan = cls(cls.Options()).plan
    communicator = opened(plan(small_models()["lenet5"], rank.world_size).mesh, rank)
    for model, spec in small_models().items():
        for name, case in cases(sharder, model):
            yield model, name, compare(spec, plan(spec, rank.world_size), case, communicator, rank)


def opened(mesh: Mesh, rank: RankInfo) -> GlooCommunicator:
    """Returns a communicator with the groups of a mesh; the ranks join each other once, for all meshes."""
    communicator = GlooCommunicator(CommunicatorOptions())
    joined = torch.distributed.is_initialized()
    with patch("torch.distributed.init_process_group") if joined else nullcontext():
        communicator.open(mesh, rank)
    return communicator


def compare(
    spec: ModelSpec, layout: Layout, case: Case, communicator: GlooCommunicator, rank: RankInfo
) -> Iterator[tuple[str, object, object]]:
    """Yields what was compared, the plan's figure and the one that was measured."""
    communicator.options = options = CommunicatorOptions(**case.wire)
    step = StepSpec(Adam(lr=0.001), **case.step)
    flow = build_flow(spec, layout)
    engine = TorchEngine(EngineRequest(spec, layout, flow, (), communicator, step, rank, seed=1), torch.device("cpu"))
    with torch.no_grad():
        for parameter in engine._parameters.values():
            parameter.fill_(0.01)
    engine.train(window(spec, layout, rank.rank, step.shards or layout.num_batch_shards), np.full(STEPS, 0.001))

    size = build_step_size(step, options, BATCH)
    planned: Counter[tuple[str, int]] = Counter()
    for payload in step_payloads(spec, layout, flow, size):
        planned[payload.collective, payload.group_size] += STEPS * payload.payload_bytes
    yield "bytes on the wire", dict(planned), dict(engine.traffic())

    memory = card_memory(spec, layout, flow, step, options.bucket_mb)
    parameters = [parameter for model in engine._models for parameter in model.parameters()]
    buffers = [buffer for model in engine._models for buffer in model.buffers()]
    slots = [tensor for slot in engine._optimizer._update.slots.values() for tensor in slot.values()]
    gradients = [*(p.grad for p in parameters), *(bucket.piece for bucket in engine._gradients.buckets)]
    yield "weights", memory.weights, held(parameters)
    yield "gradients", memory.gradients, held(gradients)
    yield "optimizer", memory.optimizer, held(slots)
    yield "buffers", memory.buffers, held(buffers)
    yield "average", memory.average, held(engine._average.tensors.values() if engine._average else ())


def held(tensors: Iterable[torch.Tensor]) -> int:
    """Returns the bytes of the storages in which tensors lie, each once."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def window(spec: ModelSpec, layout: Layout, rank: int, parts: int) -> Window:
    """Returns this rank's rows of random batches that are computed in `parts` parts."""
    random = np.random.default_rng(7)
    shape = (STEPS, BATCH, *spec.sample.shape)
    vocabulary = spec.sample.vocabulary
    samples = (
        random.normal(size=shape).astype(np.float32)
        if vocabulary is None
        else random.integers(1, vocabulary, shape).astype(np.int32)
    )
    labels = random.integers(0, spec.sample.num_classes, (STEPS, BATCH))
    ids = np.arange(STEPS * BATCH).reshape(STEPS, parts, -1)
    rows = BATCH // layout.num_batch_shards
    mine = slice(layout.batch_shard(rank) * rows, (layout.batch_shard(rank) + 1) * rows)
    return Window(samples[:, mine].copy(), labels[:, mine].copy(), np.full(STEPS, BATCH), ids)


if __name__ == "__main__":
    main(*sys.argv[1:])
