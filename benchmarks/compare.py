"""Speed and memory of a run beside two hand-written scripts, in interleaved pairs.

    python -m benchmarks.compare [--data FOLDER] [--pairs 5] [--cards 1 2] [--steps 900]

The project trains LeNet-5 with `core.train`, data parallel, 64 images a card, one thread a rank; beside each run the
plain script and the by-hand script train the same on the same IDX files. What is printed are medians of the ratios of
images per second within a pair, and of the ranks' peak memory. A lone absolute figure means little on a shared machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
VARIABLES = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


@dataclass(frozen=True)
class Figures:
    """What one run gave."""

    images_per_s: float
    peak_rss_mb: float


def run_project(data: Path, cards: int, steps: int, arguments: tuple[str, ...] = ()) -> Figures:
    """Runs core.train and returns its figures."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "core.train", "model=lenet5", "data=idx", f"data.root={data}", f"cards={cards}"),
            *("device=cpu", "backend.threads=1", "sharder=data_parallel", f"steps={steps}", "batch.per_card=64"),
            *("eval.every_epochs=0", "checkpoint.every_steps=0", f"hydra.run.dir={folder}/run", *arguments),
        ]
        _run(command)
        summary = json.loads((Path(folder) / "run" / "summary.json").read_text())
    return Figures(summary["train_samples_per_s"], max(summary["peak_rss_mb"]))


def run_script(name: str, data: Path, cards: int, steps: int) -> Figures:
    """Runs one of the scripts beside this file and returns its figures."""
    start = [sys.executable]
    if cards > 1:
        start += ["-m", "torch.distributed.run", f"--nproc-per-node={cards}", "--rdzv-backend=c10d"]
        start += ["--rdzv-endpoint=localhost:0", "--local-addr=127.0.0.1"]
    out = _run([*start, str(HERE / name), "--data", str(data), "--steps", str(steps)])
    record = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    return Figures(record["images_per_s"], max(record["peak_rss_mb"]))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, env={**os.environ, **VARIABLES}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def unpack(source: Path, target: Path) -> Path:
    """Returns a folder with the four files of `source` unpacked."""
    for name in NAMES:
        packed = source / f"{name}.gz"
        content = gzip.decompress(packed.read_bytes()) if packed.exists() else (source / name).read_bytes()
        (target / name).write_bytes(content)
    return target


def compare(data: Path, cards: int, pairs: int, steps: int, arguments: tuple[str, ...]) -> None:
    """Prints the ratios for one number of cards."""
    scripts = ("plain_lenet5.py", "by_hand_lenet5.py")
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in scripts}
    for _ in range(pairs):
        for name in scripts:
            ours, theirs = run_project(data, cards, steps, arguments), run_script(name, data, cards, steps)
            speed, memory = ours.images_per_s / theirs.images_per_s, ours.peak_rss_mb / theirs.peak_rss_mb
            ratios[name].append((speed, memory))
            print(
                f"  cards={cards} ours {ours.images_per_s:,.0f} images/s {ours.peak_rss_mb:.0f} MB, {name} "
                f"{theirs.images_per_s:,.0f} images/s {theirs.peak_rss_mb:.0f} MB",
                flush=True,
            )
    for name, found in ratios.items():
        speed, memory = (statistics.median(values) for values in zip(*found, strict=True))
        low, high = min(value for value, _ in found), max(value for value, _ in found)
        print(
            f"cards={cards} against {name}: images/s x{speed:.2f} (median of {pairs} pairs, {low:.2f} to {high:.2f}), "
            f"peak memory x{memory:.2f}",
            flush=True,
        )


def main() -> None:
    """Reads the arguments and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DEBIAN, help="folder of four IDX files of 28x28 images")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--cards", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("arguments", nargs="*", help="more arguments for core.train, such as sharder=hybrid")
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"{options.data} is missing: install Debian's dataset-fashion-mnist, or give --data.")
    with tempfile.TemporaryDirectory() as folder:
        data = unpack(options.data, Path(folder))
        for cards in options.cards:
            compare(data, cards, options.pairs, options.steps, tuple(options.arguments))


if __name__ == "__main__":
    main()
