"""The trainer: runs windows of steps and, between them, looks at numbers, evaluates and saves. One on each rank."""

from __future__ import annotations

import contextlib
import resource
import time
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from core.checkpoint import Checkpoint, CheckpointStore, Position
from core.config.assembly import Assembly
from core.config.freeze import plain_config
from core.config.schema import DEFAULT_EPOCHS
from core.contracts import ArraySplit, Engine, RankInfo, Window, WindowResult
from core.data import Loader, evaluation_windows
from core.errors import NonFiniteLossError
from core.run_files import events
from core.training.records import Records
from core.training.sample_stream import build_batch_plan, sample_stream
from core.training.summary import MetricsFile, build_summary, save_summary
from core.training.windows import Stopwatch, WindowPlan, WindowSpan

COMPLETE, EARLY, STOPPED = "complete", "early", "stopped"


class Trainer:
    """Trains from a checkpoint, or from the start, to the end of the run or to a wish to stop.

    All ranks run the same trainer; what it decides it decides from numbers that are the same on all of them. Files are
    written by rank 0.

    Args:
        assembly: The parts of the run.
        engine: This rank's, loaded.
        rank: Who this process is.
        run_dir: The run directory.
        writer: This rank's events.
        checkpoint: What the run goes on from, if anything.
    """

    def __init__(
        self,
        assembly: Assembly,
        engine: Engine,
        rank: RankInfo,
        run_dir: Path,
        writer: events.EventWriter,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._assembly = assembly
        self._config = assembly.config
        self._engine = engine
        self._rank = rank
        self._run_dir = run_dir
        self._writer = writer
        self._begin = time.time()
        layout = assembly.layout
        split = assembly.dataset.load("train")
        self._plan = build_batch_plan(assembly, len(split))
        parts = self._plan.num_shards // layout.num_batch_shards
        first = layout.batch_shard(rank.rank) * parts
        self._loader = Loader(split, self._plan, range(first, first + parts), seed=self._config.seed)
        self._total = self._config.steps or (self._config.epochs or DEFAULT_EPOCHS) * self._plan.steps_per_epoch
        self._store = CheckpointStore(run_dir / "checkpoints", keep=self._config.checkpoint.keep)
        self._adopt(checkpoint)

    def _adopt(self, checkpoint: Checkpoint | None) -> None:
        """Takes position and records from a checkpoint, which the parent has found to fit."""
        self.step = checkpoint.position.step if checkpoint else 0
        self._saved_step = self.step if checkpoint else None
        if checkpoint is None:
            self._records = Records()
            return
        self._records = Records.from_json(checkpoint.progress["records"])

    def train(self) -> str:
        """Runs to the end; collective.

        Returns:
            "complete", "early" when evaluations got no better, or "stopped" after a wish to stop.

        Raises:
            NonFiniteLossError: A loss is NaN or infinite and on_nan is stop.
        """
        is_writer = self._rank.rank == 0
        self._metrics = MetricsFile(self._run_dir, self.step) if is_writer else None
        windows = WindowPlan(
            self._plan.steps_per_epoch,
            self._total,
            self._config.checkpoint.every_steps,
            self._loader.max_window_steps,
        )
        self._writer.write(events.READY, total=self._total, step=self.step)
        outcome = COMPLETE
        watch = Stopwatch()  # runs while a window is waited for and trained, not while the run evaluates or saves
        for span, window in self._windows(windows):
            outcome = self._run_window(windows, span, window, watch)
            if outcome != COMPLETE:
                break
            watch.restart()
        if outcome != STOPPED and self._needs_evaluation_at_end():
            self._evaluate(max(0, self.step - 1) // self._plan.steps_per_epoch)
        if self._saved_step != self.step:
            self._save(is_best=False)
        self._finish(outcome)
        return outcome

    def _windows(self, plan: WindowPlan) -> Iterator[tuple[WindowSpan, Window]]:
        """Yields each window with its place in the run; the next is prepared while one is used."""
        spans: deque[WindowSpan] = deque()

        def schedule() -> Iterator[tuple[int, int, int]]:
            for span in plan.spans(self.step):
                spans.append(span)
                yield span.epoch, span.first, span.num_steps

        with contextlib.closing(self._loader.windows(schedule())) as windows:
            for window in windows:
                yield spans.popleft(), window

    def _run_window(self, plan: WindowPlan, span: WindowSpan, window: Window, watch: Stopwatch) -> str:
        """Trains one window and does what is due at its end."""
        lr = self._assembly.schedule.rates(
            self._assembly.optimizer.lr, span.end - span.num_steps, span.num_steps, self._total
        )
        result = self._engine.train(window, lr)
        wants_stop = self._rank.rank == 0 and (self._run_dir / events.STOP_FILE).exists()
        seconds, stop = self._assembly.communicator.agree(np.array([watch.restart(), float(wants_stop)]), "max")
        plan.measured(span.num_steps, seconds)
        self._check_finite(result, span)
        self._note(result, span, window, float(seconds), lr)
        if span.first + span.num_steps == self._plan.steps_per_epoch:
            self._end_epoch(span.epoch)
        every = self._config.checkpoint.every_steps
        is_due = (every and self.step % every == 0) or bool(stop)
        if is_due and self._saved_step != self.step:
            self._save(is_best=False)
        if stop and self.step < self._total:
            return STOPPED
        patience = self._config.early_stop.patience
        return EARLY if patience and self._records.without_better >= patience else COMPLETE

    def _check_finite(self, result: WindowResult, span: WindowSpan) -> None:
        bad = np.flatnonzero(~np.isfinite(result.losses))
        if self._config.on_nan.value == "skip" or not len(bad):
            return
        step = span.end - span.num_steps + int(bad[0]) + 1
        raise NonFiniteLossError(
            f"The loss is {result.losses[bad[0]]} at step {step} (epoch {span.epoch + 1}).",
            remedy="Lower optimizer.lr, look at the data, or set on_nan=skip; the checkpoints before it are whole.",
        )

    def _note(self, result: WindowResult, span: WindowSpan, window: Window, seconds: float, lr: Any) -> None:
        """Adds a window to the records and tells of it."""
        first, self.step = self.step, span.end
        self._records.add(result, window.global_counts, seconds)
        event: dict[str, Any] = {"step": self.step, "epoch": span.epoch + 1}
        if self._metrics is not None:
            rate = float(window.global_counts.sum()) / seconds
            for index in range(span.num_steps):
                step, loss = first + index + 1, float(result.losses[index])
                if step % self._config.log.every_steps == 0 or step == self._total:
                    record = {"step": step, "loss": loss if np.isfinite(loss) else None, "lr": float(lr[index])}
                    self._metrics.write({**record, "epoch": span.epoch + 1, "samples_per_s": rate})
                    self._writer.write(events.METRICS, **record, samples_per_s=rate)
            event |= {
                "total": self._total,
                "loss": self._records.last_loss,
                "accuracy": float(result.correct[-1]) / int(window.global_counts[-1]),
                "samples_per_s": rate,
                "eta_s": (self._total - self.step) * seconds / span.num_steps,
            }
        self._writer.write(events.PROGRESS, **event)

    def _end_epoch(self, epoch: int) -> None:
        """Closes the records of an epoch, and evaluates if that is due."""
        self._records.end_epoch(epoch)
        every = self._config.eval.every_epochs
        if every and (epoch + 1) % every == 0:
            self._evaluate(epoch)

    def _needs_evaluation_at_end(self) -> bool:
        return bool(self._config.eval.every_epochs) and self._records.evaluation.get("step") != self.step

    @cached_property
    def _eval_split(self) -> ArraySplit:
        """The evaluation arrays, loaded at the first evaluation and kept."""
        return self._assembly.dataset.load("eval")

    def _evaluate(self, epoch: int) -> None:
        """Evaluates on the whole evaluation split, and saves if it is the best so far."""
        layout = self._assembly.layout
        loss_sum, correct, count = 0.0, 0, 0
        for window in evaluation_windows(
            self._eval_split,
            shard=layout.batch_shard(self._rank.rank),
            num_shards=layout.num_batch_shards,
            batch=self._config.eval.batch,
        ):
            totals = self._engine.evaluate(window)
            loss_sum, correct, count = loss_sum + totals.loss_sum, correct + totals.correct, count + totals.count
        numbers = {"eval_loss": loss_sum / count, "eval_accuracy": correct / count}
        if self._metrics is not None:
            record = {"step": self.step, "epoch": epoch + 1, **numbers, "count": count}
            self._metrics.write(record)
            self._writer.write(events.EVALUATED, **record)
        if self._records.evaluated(self.step, epoch, numbers):
            self._save(is_best=True)

    def _save(self, is_best: bool) -> None:
        """Saves a checkpoint; collective."""
        state = self._engine.gather()
        if self._rank.rank == 0:
            epoch, within = divmod(self.step, self._plan.steps_per_epoch)
            stream = sample_stream(self._assembly, self._plan.num_samples)
            checkpoint = Checkpoint(
                position=Position(epoch=epoch, step_in_epoch=within, step=self.step),
                state=state,
                progress={"stream": stream, "records": self._records.to_json(self._seconds())},
                metrics={key: value for key, value in self._records.evaluation.items() if key != "step"},
                config=plain_config(self._config),
            )
            path = self._store.save(checkpoint, is_best=is_best)
            self._writer.write(events.SAVED, step=self.step, path=str(path), best=is_best)
        self._saved_step = self.step
        self._assembly.communicator.barrier()

    def _seconds(self) -> float:
        return self._records.seconds + time.time() - self._begin

    def _finish(self, outcome: str) -> None:
        """Gathers what every rank used, and writes the summary; collective."""
        peaks = np.zeros(self._rank.world_size)
        peaks[self._rank.rank] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        peaks = self._assembly.communicator.agree(peaks, "sum")
        if self._metrics is not None:
            self._metrics.close()
            summary = build_summary(
                self._assembly, self._records, outcome, self.step, self._seconds(), [float(peak) for peak in peaks]
            )
            save_summary(summary, self._run_dir)
