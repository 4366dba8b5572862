"""A million samples from a mapped file beside the same samples in memory, in interleaved pairs.

    python -m benchmarks.million [--root FOLDER] [--pairs 5] [--steps 800] [--samples 1000000]

Makes the data set digits_million once, trains LeNet-5 for a whole epoch on two cards and prints the ranks' peak memory;
then trains `steps` updates of 512 samples from the file and from memory in turns and prints the median of the ratios of
samples per second within a pair.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def run(root: Path, samples: int, *arguments: str) -> dict[str, Any]:
    """Runs core.train on two cards and returns its summary."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "core.train", "model=lenet5", "data=digits_million", f"data.root={root}"),
            *(f"data.samples={samples}", "cards=2", "device=cpu", "backend.threads=1", "sharder=data_parallel"),
            *("batch.per_card=256", "checkpoint.every_steps=0", f"hydra.run.dir={folder}/run", *arguments),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary: dict[str, Any] = json.loads((Path(folder) / "run" / "summary.json").read_text())
        return summary


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(tempfile.gettempdir()) / "anycard-million")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--samples", type=int, default=1_000_000)
    options = parser.parse_args()
    root = options.root.absolute()
    begin = time.perf_counter()
    run(root, options.samples, "steps=1", "eval.every_epochs=0")
    print(f"made or found {options.samples:,} samples in {time.perf_counter() - begin:.0f} s, with the start of a run")
    epoch = run(root, options.samples, "epochs=1")
    peaks = ", ".join(f"{peak:.0f}" for peak in epoch["peak_rss_mb"])
    print(f"one epoch, mapped: peak memory {peaks} MiB, eval accuracy {epoch['eval_accuracy']:.4f}")
    ratios = []
    for pair in range(options.pairs):
        common = (f"steps={options.steps}", "eval.every_epochs=0")
        order = ("false", "true") if pair % 2 == 0 else ("true", "false")
        rates = {resident: run(root, options.samples, *common, f"data.resident={resident}") for resident in order}
        ratios.append(rates["false"]["train_samples_per_s"] / rates["true"]["train_samples_per_s"])
        print(f"pair {pair + 1}: mapped / resident x{ratios[-1]:.2f}", flush=True)
    print(f"mapped / resident: median x{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
