"""Saves checkpoints until it is killed: `python -m tests.checkpoint.saving_loop FOLDER`.

Goes on from the newest one, prints each step that is saved, saves every third one twice and calls every fifth the best.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from core.checkpoint import CheckpointStore
from tests.checkpoint.samples import build_checkpoint


def save_forever(folder: Path) -> None:
    store = CheckpointStore(folder, keep=2)
    newest, _ = store.newest()
    first = int(newest.name.rpartition("step-")[2][:8]) + 1 if newest else 1
    for step in itertools.count(first):
        for mark in range(2 if step % 3 == 0 else 1):
            store.save(build_checkpoint(step, mark), is_best=step % 5 == 0)
            print(step, flush=True)


if __name__ == "__main__":
    save_forever(Path(sys.argv[1]))
