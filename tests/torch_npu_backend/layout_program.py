"""Trains small chains of linear layers under every sharder; started once a rank by test_layouts.

python -m tests.torch_npu_backend.layout_program OUTPUT
"""

from __future__ import annotations

import os
import sys

import numpy as np
import torch

from core.contracts import SGD, EngineRequest, RankInfo, TrainingState, Window
from core.contracts.communicator import CommunicatorOptions
from core.layout import build_flow, step_payloads
from core.plugin_system import load_catalogue
from core.spec import Flatten, Linear, ModelSpec, ReLU, SampleSpec, initial_parameters
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


def chain(name: str) -> ModelSpec:
    """Returns linear layers with ReLUs between them."""
    widths = WIDTHS[name]
    layers = [Flatten("flatten")]
    for index in range(len(widths) - 1):
        layers += [Linear(f"l{index}", widths[index], widths[index + 1]), ReLU(f"r{index}")]
    return ModelSpec(name, SampleSpec((4, 4), widths[-1]), tuple(layers[:-1]))


def main(output: str) -> None:
    rank = RankInfo(int(os.environ["RANK"]), 0, int(os.environ["WORLD_SIZE"]), "cpu")
    torch.set_num_threads(1)
    found = {}
    communicator = None
    for sharder in ("data_parallel", "tensor_parallel", "hybrid"):
        for name in WIDTHS:
            spec = chain(name)
            layout = load_catalogue().get("sharder", sharder)(None).plan(spec, rank.world_size)
            if communicator is not None:
                communicator.close()
            communicator = GlooCommunicator(CommunicatorOptions())
            communicator.open(layout.mesh, rank)
            flow = build_flow(spec, layout)
            request = EngineRequest(spec, layout, flow, (), communicator, SGD(lr=0.1), rank, False, False)
            engine = TorchEngine(request, torch.device("cpu"))
            engine.load(TrainingState(initial_parameters(spec, 1)))
            random = np.random.default_rng(7)
            samples = random.normal(size=(5, BATCH, 4, 4)).astype(np.float32)
            labels = random.integers(0, WIDTHS[name][-1], (5, BATCH))
            rows = BATCH // layout.num_batch_shards
            mine = slice(layout.batch_shard(rank.rank) * rows, (layout.batch_shard(rank.rank) + 1) * rows)
            part = Window(samples[:, mine].copy(), labels[:, mine].copy(), np.full(5, BATCH))
            result = engine.train(part, np.full(5, 0.1))
            totals = engine.evaluate(part)
            assert totals.count == 5 * BATCH
            planned: dict[tuple[str, int], int] = {}
            for payload in step_payloads(spec, layout, flow, BATCH):
                key = (payload.collective, payload.group_size)
                planned[key] = planned.get(key, 0) + 5 * payload.payload_bytes
            assert dict(engine.traffic()) == planned, (sharder, name, engine.traffic(), planned)
            state = engine.gather()
            found[f"{sharder}/{name}/losses"] = result.losses
            found[f"{sharder}/{name}/eval"] = np.array([totals.loss_sum, totals.correct])
            for parameter, array in state.parameters.items():
                found[f"{sharder}/{name}/{parameter}"] = array
    if rank.rank == 0:
        np.savez(output, **found)
    assert communicator is not None
    communicator.barrier()
    communicator.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
