"""LeNet-5 in hand-tuned PyTorch: resident bytes, whole-batch transforms, fused Adam, one flat all-reduce a step.

The same training as plain_lenet5.py with every shortcut that an expert takes without leaving public PyTorch.
Stand-alone: a baseline to compare speed and memory with. One process, or one per card:

    python benchmarks/by_hand_lenet5.py --data FOLDER
    torchrun --nproc-per-node 2 benchmarks/by_hand_lenet5.py --data FOLDER

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

import torch
import torch.distributed as dist
import torch.nn.functional as F
from idx import read_train_split
from torch import Tensor, nn

BATCH_SIZE = 64
LEARNING_RATE = 1e-3
MEAN, STD = 0.2860, 0.3530


def lenet5() -> nn.Sequential:
    """Returns LeNet-5 with ReLU and max pooling for 28x28 grey images of 10 classes: 61,706 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def flatten_gradients(model: nn.Module) -> Tensor:
    """Gives every parameter a gradient that is a view of one flat tensor, and returns that tensor."""
    parameters = list(model.parameters())
    flat = torch.zeros(sum(parameter.numel() for parameter in parameters))
    offset = 0
    for parameter in parameters:
        piece = flat[offset : offset + parameter.numel()]
        # A 4-d gradient takes the strides of its parameter (channels last).
        parameter.grad = piece.as_strided(parameter.shape, parameter.stride())
        offset += parameter.numel()
    return flat


def indices(samples: int, rank: int, world_size: int) -> Iterator[Tensor]:
    """Yields this rank's batches of sample numbers without end, reshuffled every epoch, no sample on two ranks."""
    epoch = 0
    while True:
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
        for start in range(0, samples - BATCH_SIZE * world_size + 1, BATCH_SIZE * world_size):
            first = start + rank * BATCH_SIZE
            yield order[first : first + BATCH_SIZE]
        epoch += 1


def peak_rss_mb() -> float:
    """Returns this process's peak resident memory in MiB; Linux counts it in KiB, macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 2**20 if sys.platform == "darwin" else peak / 2**10, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times hand-tuned PyTorch on LeNet-5.")
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

    image_bytes, label_bytes = read_train_split(arguments.data, arguments.limit)
    images = torch.from_numpy(image_bytes).unsqueeze(1)
    labels = torch.from_numpy(label_bytes).long()

    torch.manual_seed(0)  # The same first weights on every rank.
    model = lenet5()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    gradients = flatten_gradients(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)

    stream = indices(len(images), rank, world_size)
    seconds = 0.0
    loss = torch.zeros(())
    for count in (arguments.warmup, arguments.steps):
        if world_size > 1:
            dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            index = next(stream)
            inputs = images[index].float().sub_(255 * MEAN).mul_(1 / (255 * STD))
            gradients.zero_()
            loss = F.cross_entropy(model(inputs.contiguous(memory_format=torch.channels_last)), labels[index])
            loss.backward()  # type: ignore[no-untyped-call]
            if world_size > 1:
                dist.all_reduce(gradients)
                gradients.div_(world_size)
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
