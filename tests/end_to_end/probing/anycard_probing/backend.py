from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.contracts import Engine, EngineRequest, Window
from plugins.torch_npu_backend.backend import TorchNpuBackend, TorchNpuOptions


@dataclass(kw_only=True)
class ProbedOptions(TorchNpuOptions):
    fault: str = "none"  # none, raise, exit, kill, hang, nan or slow
    rank: int = 0  # the rank that it befalls
    step: int = 0  # the updates after which it does
    report: str | None = None  # folder for a JSON file a rank with what lives there at the end


class ProbedBackend(TorchNpuBackend):
    name = "probed"
    Options = ProbedOptions

    def build_engine(self, request: EngineRequest) -> Engine:
        return ProbedEngine(super().build_engine(request), request, self.options)


class ProbedEngine(Engine):
    """Hands everything on, one step at a time."""

    def __init__(self, engine: Any, request: EngineRequest, options: ProbedOptions) -> None:
        self._engine = engine
        self._rank = request.rank.rank
        self._options = options
        self._updates = 0
        self._eval_labels: list[int] = []
        self._train_samples = 0

    def load(self, state: Any) -> None:
        self._updates = state.num_updates
        self._engine.load(state)

    def gather(self) -> Any:
        return self._engine.gather()

    def train(self, window: Window, lr: Any) -> Any:
        results = []
        for step in range(window.num_steps):
            self._befall()
            one = slice(step, step + 1)
            samples = window.samples[one]
            if self._options.fault == "nan" and self._updates == self._options.step:
                samples = np.full(samples.shape, np.nan, dtype=np.float32)
            part = Window(samples, window.labels[one], window.global_counts[one], window.ids[one], window.epoch)
            results.append(self._engine.train(part, lr[one]))
            self._updates += 1
            self._train_samples += int((window.labels[one] >= 0).sum())
        first = results[0]
        return type(first)(
            np.concatenate([result.losses for result in results]),
            np.concatenate([result.correct for result in results]),
            sum(result.skipped for result in results),
        )

    def _befall(self) -> None:
        fault = self._options.fault
        if fault == "slow":
            time.sleep(0.02)
        if self._rank != self._options.rank or self._updates != self._options.step:
            return
        if fault == "raise":
            raise RuntimeError("the probed fault")
        if fault == "exit":
            sys.stdout.flush()
            os._exit(7)
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "hang":
            time.sleep(600)

    def evaluate(self, window: Window) -> Any:
        self._eval_labels += [int(label) for label in window.labels.ravel() if label >= 0]
        return self._engine.evaluate(window)

    def local_tensors(self) -> Any:
        return self._engine.local_tensors()

    def traffic(self) -> Any:
        return self._engine.traffic()

    def close(self) -> None:
        if self._options.report:
            record = {
                "shapes": self._engine.local_tensors(),
                "live": {name: list(p.shape) for name, p in self._engine._parameters.items()},
                "bytes": sum(p.numel() * p.element_size() for p in self._engine._parameters.values()),
                "optimizer_bytes": self._engine._optimizer.num_bytes,
                "traffic": [[*key, size] for key, size in self._engine.traffic().items()],
                "updates": self._updates,
                "eval_labels": len(self._eval_labels),
                "train_samples": self._train_samples,
                "has_dynamo": "torch._dynamo" in sys.modules,
                "has_hydra": "hydra" in sys.modules,
            }
            (Path(self._options.report) / f"rank{self._rank}.json").write_text(json.dumps(record))
        self._engine.close()
