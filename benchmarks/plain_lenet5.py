"""LeNet-5 the way most training scripts are written: Dataset, DataLoader, DistributedDataParallel, torch.optim.

Stand-alone: a baseline to compare speed and memory with. One process, or one per card:

    python benchmarks/plain_lenet5.py --data FOLDER
    torchrun --nproc-per-node 2 benchmarks/plain_lenet5.py --data FOLDER

Rank 0 prints one JSON line: images per second of all ranks together, peak resident memory of each rank, and the loss of
rank 0's last batch.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from idx import Bytes, read_train_split
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

BATCH_SIZE = 64
LEARNING_RATE = 1e-3
MEAN, STD = 0.2860, 0.3530


class Images(Dataset[tuple[Tensor, int]]):
    """Grey images with labels, one sample at a time."""

    def __init__(self, images: Bytes, labels: Bytes) -> None:
        self.images = torch.from_numpy(images)
        self.labels = labels.tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        # What torchvision's ToTensor and Normalize do.
        image = self.images[index].unsqueeze(0).to(torch.float32).div_(255)
        return image.sub_(MEAN).div_(STD), self.labels[index]


class LeNet5(nn.Module):
    """LeNet-5 with ReLU and max pooling for 28x28 grey images of 10 classes: 61,706 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(images))
        return logits


def batches(loader: DataLoader[Any], sampler: DistributedSampler[Any]) -> Iterator[list[Tensor]]:
    """Yields batches without end, reshuffled every epoch."""
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def peak_rss_mb() -> float:
    """Returns this process's peak resident memory in MiB; Linux counts it in KiB, macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 2**20 if sys.platform == "darwin" else peak / 2**10, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a plain training script on LeNet-5.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the IDX files, plain or .gz")
    parser.add_argument("--limit", type=int, default=None, help="use only the first so many images")
    parser.add_argument("--steps", type=int, default=300, help="timed steps")
    parser.add_argument("--warmup", type=int, default=30, help="steps before the clock starts")
    parser.add_argument("--threads", type=int, default=1, help="compute threads per process")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world_size > 1:
        dist.init_process_group("gloo")

    images, labels = read_train_split(arguments.data, arguments.limit)
    dataset = Images(images, labels)
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, world_size, rank, shuffle=True, seed=0)
    # No workers: measured on two cores, two workers were slower with two ranks (by a fifth), where no core is idle, and
    # mostly slower with one. A sample is four small tensor operations; passing batches between processes costs as much.
    loader: DataLoader[Any] = DataLoader(dataset, BATCH_SIZE, sampler=sampler, drop_last=True, num_workers=0)

    torch.manual_seed(0)
    model: nn.Module = LeNet5()
    if world_size > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    criterion = nn.CrossEntropyLoss()

    stream = batches(loader, sampler)
    seconds = 0.0
    loss = torch.zeros(())
    for count in (arguments.warmup, arguments.steps):
        if world_size > 1:
            dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            inputs, targets = next(stream)
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
        if world_size > 1:
            dist.barrier()
        seconds = time.perf_counter() - start

    peaks = [peak_rss_mb()]
    if world_size > 1:
        gathered: list[float] = [0.0] * world_size
        dist.all_gather_object(gathered, peaks[0])
        peaks = gathered
        dist.destroy_process_group()
    if rank == 0:
        images_per_s = arguments.steps * BATCH_SIZE * world_size / seconds
        print(json.dumps({"images_per_s": round(images_per_s, 1), "peak_rss_mb": peaks, "loss": round(loss.item(), 4)}))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads now and then abort in their destructors (torch 2.13)
