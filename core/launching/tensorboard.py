"""TensorBoard events, where the extra is installed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from core.run_files import events

FOLDER = "tensorboard"
PACKAGE = "tensorboardX"
TAGS = {"loss": "train/loss", "lr": "train/lr", "samples_per_s": "train/samples_per_s"}
EVAL_TAGS = {"eval_loss": "eval/loss", "eval_accuracy": "eval/accuracy"}


@contextlib.contextmanager
def hide(modules: Iterable[str]) -> Iterator[None]:
    """Makes imports of `modules` fail in this process, as if they were not installed."""
    absent = {name for name in modules if name not in sys.modules}
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None is what importlib takes for "absent"
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


class TensorBoard:
    """Writes what rank 0 tells into the run directory's tensorboard/; does nothing without the package.

    The package is imported with the first number, while the ranks already run.

    Args:
        run_dir: The run directory.
        hidden: Modules of frameworks, which the package would import if it could, to no use here.
    """

    def __init__(self, run_dir: Path, hidden: Iterable[str]) -> None:
        self._folder = run_dir / FOLDER
        self._hidden = tuple(hidden)
        self._is_installed = importlib.util.find_spec(PACKAGE) is not None
        self._writer: Any = None

    def take(self, event: dict[str, Any]) -> None:
        """Writes the numbers of a logged step or an evaluation."""
        tags = {events.METRICS: TAGS, events.EVALUATED: EVAL_TAGS}.get(event["kind"])
        if not self._is_installed or tags is None:
            return
        if self._writer is None:
            with hide(self._hidden):
                module = importlib.import_module(PACKAGE)
            self._writer = module.SummaryWriter(str(self._folder))
        for key, tag in tags.items():
            if event[key] is not None:
                self._writer.add_scalar(tag, event[key], event["step"], walltime=event["time"])

    def close(self) -> None:
        """Flushes and closes the file."""
        if self._writer is not None:
            self._writer.close()
