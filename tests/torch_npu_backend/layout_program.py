"""Trains small chains of linear layers under one sharder; started once a rank by test_layouts.

python -m tests.torch_npu_backend.layout_program SHARDER OUTPUT ACCUMULATE CLIP_NORM
"""

from __future__ import annotations

import os
import sys

import numpy as np
import torch

from core.contracts import SGD, EngineRequest, RankInfo, StepSpec, TrainingState, Window
from core.contracts.communicator import CommunicatorOptions
from core.layout import StepSize, build_flow, step_payloads
from core.plugin_system import load_catalogue
from core.spec import Flatten, Linear, ModelSpec, ReLU, SampleSpec
from plugins.torch_npu_backend.communicator import GlooCommunicator
from plugins.torch_npu_backend.engine import TorchEngine

WIDTHS = {
    "one": (16, 4),
    "two": (16, 8, 3),
    "three": (16, 8, 12, 3),
    "four": (16, 8, 12, 8, 3),
    "five": (16, 8, 12, 8, 4, 3),
}
BATCH = 12
STEPS = 5


def chain(name: str) -> ModelSpec:
    """Returns linear layers with ReLUs between them."""
    widths = WIDTHS[name]
    layers = [Flatten("flatten")]
    for index in range(len(widths) - 1):
        layers += [Linear(f"l{index}", widths[index], widths[index + 1]), ReLU(f"r{index}")]
    return ModelSpec(name, SampleSpec((4, 4), widths[-1]), tuple(layers[:-1]))


def main(sharder: str, output: str, accumulate: str, clip_norm: str) -> None:
    rank = RankInfo(int(os.environ["RANK"]), 0, int(os.environ["WORLD_SIZE"]), "cpu")
    torch.set_num_threads(1)
    cls = load_catalogue().get("sharder", sharder)
    plan = cls(cls.Options()).plan
    communicator = GlooCommunicator(CommunicatorOptions())
    communicator.open(plan(chain("one"), rank.world_size).mesh, rank)
    found = {}
    for name in WIDTHS:
        spec = chain(name)
        layout = plan(spec, rank.world_size)
        flow = build_flow(spec, layout)
        step = StepSpec(SGD(lr=0.1), accumulate=int(accumulate), clip_norm=float(clip_norm) or None)
        request = EngineRequest(spec, layout, flow, (), communicator, step, rank, seed=1)
        engine = TorchEngine(request, torch.device("cpu"))
        engine.load(TrainingState.initial(spec, 1))
        random = np.random.default_rng(7)
        samples = random.normal(size=(STEPS, BATCH, 4, 4)).astype(np.float32)
        labels = random.integers(0, WIDTHS[name][-1], (STEPS, BATCH))
        rows = BATCH // layout.num_batch_shards
        mine = slice(layout.batch_shard(rank.rank) * rows, (layout.batch_shard(rank.rank) + 1) * rows)
        ids = np.arange(STEPS * BATCH).reshape(STEPS, layout.num_batch_shards, rows)
        part = Window(samples[:, mine].copy(), labels[:, mine].copy(), np.full(STEPS, BATCH), ids)
        result = engine.train(part, np.full(STEPS, 0.1))
        totals = engine.evaluate(part)
        assert totals.count == STEPS * BATCH
        planned: dict[tuple[str, int], int] = {}
        for payload in step_payloads(
            spec, layout, flow, StepSize(BATCH, accumulate=int(accumulate), clips=float(clip_norm) > 0)
        ):
            key = (payload.collective, payload.group_size)
            if payload.group_size > 1:
                planned[key] = planned.get(key, 0) + STEPS * payload.payload_bytes
        assert dict(engine.traffic()) == planned, (name, engine.traffic(), planned)
        found[f"{name}/losses"] = result.losses
        found[f"{name}/eval"] = np.array([totals.loss_sum, totals.correct])
        for parameter, array in engine.gather().parameters.items():
            found[f"{name}/{parameter}"] = array
    if rank.rank == 0:
        np.savez(output, **found)
    communicator.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
