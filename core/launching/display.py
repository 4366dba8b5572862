"""What a run shows: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from core.config.assembly import Assembly
from core.launching.start_table import start_table
from core.launching.tensorboard import FOLDER as TENSORBOARD_FOLDER
from core.run_files import events

SILENCE_S = 4.0  # a line at least this often while ranks start
PLAIN_INTERVAL_S = 2.0  # between progress lines where there is no terminal


class Display(ABC):
    """Shows one run; fed by the watch with the ranks' events.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._begin = time.monotonic()
        self._num_cards = 0
        self._is_ready: dict[int, bool] = {}
        self._stages: dict[int, str] = {}

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, assembly: Assembly, run_dir: Path, notes: list[str]) -> None:
        """Shows the start table and that the ranks are being started."""
        self._num_cards = assembly.config.cards
        self.console.print(start_table(assembly, run_dir))
        for note in notes:
            self.say(f"note: {note}")
        self._show_start(self._start_text())

    def take(self, event: dict[str, Any]) -> None:
        """Shows what an event says."""
        match event["kind"]:
            case events.STAGE:
                self._stages[event["rank"]] = event["text"]
            case events.READY:
                self._is_ready[event["rank"]] = True
                if self._all_ready():
                    self._show_first_step(f"{self._ranks} ready after {self._elapsed():.1f} s", event["total"])
            case events.NOTE:
                self.say(f"note: {event['text']}")
            case events.PROGRESS if event["rank"] == 0:
                self._show_progress(event)
            case events.EVALUATED:
                self.say(
                    f"epoch {event['epoch']} step {event['step']}  eval loss {event['eval_loss']:.4f}  "
                    f"eval accuracy {event['eval_accuracy']:.4f}  ({event['count']} samples)"
                )

    def tick(self) -> None:
        """Keeps a user company while ranks start."""
        if not self._all_ready():
            self._show_waiting(self._start_text())

    def end(self, summary: dict[str, Any], run_dir: Path) -> None:
        """Says how the run ended and where everything lies."""
        accuracy, loss = summary["eval_accuracy"], summary["eval_loss"]
        ending = "no better for a while, ended early" if summary["outcome"] == "early" else "done"
        text = f"{ending}: {summary['steps']} steps in {summary['seconds']:.1f} s"
        if accuracy is not None:
            text += f", eval accuracy {accuracy:.4f}, eval loss {loss:.4f}"
        self.say(text)
        best = run_dir / "checkpoints" / "best.json"
        self.say(f"  summary      {run_dir / 'summary.json'}")
        self.say(f"  metrics      {run_dir / 'metrics.jsonl'}")
        self.say(f"  checkpoints  {run_dir / 'checkpoints'} (last.json{' and best.json' if best.exists() else ''})")
        if (run_dir / TENSORBOARD_FOLDER).exists():
            self.say(f"  tensorboard  {run_dir / TENSORBOARD_FOLDER}")
        self.say(f"  logs         {run_dir / events.LOG_FOLDER}")

    def say(self, text: str) -> None:
        """Prints one line."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    @abstractmethod
    def close(self) -> None:
        """Takes what moves off the screen."""

    @abstractmethod
    def _show_start(self, text: str) -> None: ...

    @abstractmethod
    def _show_waiting(self, text: str) -> None: ...

    @abstractmethod
    def _show_first_step(self, text: str, total: int) -> None: ...

    @abstractmethod
    def _show_progress(self, event: dict[str, Any]) -> None: ...

    def _all_ready(self) -> bool:
        return len(self._is_ready) == self._num_cards

    @property
    def _ranks(self) -> str:
        return f"{self._num_cards} rank{'' if self._num_cards == 1 else 's'}"

    def _elapsed(self) -> float:
        return time.monotonic() - self._begin

    def _start_text(self) -> str:
        stages = sorted({f"{text}" for rank, text in self._stages.items() if rank not in self._is_ready})
        doing = f", {'; '.join(stages)}" if stages else ""
        return f"starting {self._ranks}: {len(self._is_ready)} ready after {self._elapsed():.0f} s{doing}"


class PlainDisplay(Display):
    """Lines, for pipes and files."""

    _last_line = 0.0

    def close(self) -> None:
        pass

    def _show_start(self, text: str) -> None:
        self._line(text)

    def _show_waiting(self, text: str) -> None:
        if time.monotonic() - self._last_line > SILENCE_S:
            self._line(text)

    def _show_first_step(self, text: str, total: int) -> None:
        self._line(text)

    def _show_progress(self, event: dict[str, Any]) -> None:
        if time.monotonic() - self._last_line > PLAIN_INTERVAL_S or event["step"] == event["total"]:
            self._line(
                f"epoch {event['epoch']} step {event['step']}/{event['total']}  loss {event['loss']:.4f}  accuracy "
                f"{event['accuracy']:.4f}  {event['samples_per_s']:,.0f} samples/s  eta {event['eta_s']:.0f} s"
            )

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        self.say(text)


class TerminalDisplay(Display):
    """A progress bar that moves, with lines above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, numbers="")

    def close(self) -> None:
        self._progress.stop()

    def _show_start(self, text: str) -> None:
        self._progress.update(self._task, description=text)
        self._progress.start()

    def _show_waiting(self, text: str) -> None:
        self._progress.update(self._task, description=text)

    def _show_first_step(self, text: str, total: int) -> None:
        self.say(text)
        self._progress.reset(self._task, total=total, description="training")

    def _show_progress(self, event: dict[str, Any]) -> None:
        numbers = f"loss {event['loss']:.4f}  acc {event['accuracy']:.4f}  {event['samples_per_s']:,.0f} samples/s"
        self._progress.update(
            self._task, completed=event["step"], description=f"epoch {event['epoch']}", numbers=numbers
        )


def build_display(is_alone: bool) -> Display:
    """Returns the display that fits standard output; a bar moves only where no other run shares the terminal."""
    console = Console()
    return TerminalDisplay(console) if console.is_terminal and is_alone else PlainDisplay(console)
