"""A million handwritten digits with no download: the embedded ones, deformed anew for each sample.

The training digits of `digits` are bent, turned, stretched and shifted (`digit_deformation`); evaluation is on the real
digits that training never saw, at the same size. Made once, in parallel, into memory-mapped files; the bytes do not
depend on the number of processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.contracts import ArraySplit, Dataset, Transform
from core.datasets.digit_deformation import SIDE, deformed_digits, plain_digits
from core.datasets.options import ImageOptions, MappedOptions
from core.datasets.packed import cache_root, open_packed, packed
from core.datasets.parallel import check_workers, num_processes, run_chunks
from core.errors import ConfigError
from core.spec import SampleSpec

VERSION = 1  # rises when the bytes change
CHUNK = 8192  # samples of one task
# Mean and standard deviation of a million deformed training digits' bytes.
MEAN, STD = 73.6, 80.7

Task = tuple[str, int, int, int]  # folder, seed, first sample, one past the last


@dataclass(kw_only=True)
class DigitsMillionOptions(ImageOptions, MappedOptions):
    """The options of data=digits_million."""

    root: str | None = None  # folder below which the files are made; null: $XDG_CACHE_HOME/anycard or ~/.cache/anycard
    samples: int = 1_000_000  # training samples; 784 bytes each on disk
    seed: int = 0  # of the deformations; the run's seed does not change them
    workers: int = 0  # processes that make the files; 0: one a core

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.samples < 2**32:
            raise ConfigError("'data.samples' is out of range.", received=self.samples, allowed="1 to 4294967295")
        check_workers(self.workers)


class DigitsMillion(Dataset):
    """Deformed digits of 28x28, `samples` for training; 359 real ones for evaluation."""

    name = "digits_million"
    Options = DigitsMillionOptions

    def sample_spec(self) -> SampleSpec:
        return SampleSpec(self.options.resized((1, SIDE, SIDE)), 10)

    def transforms(self) -> tuple[Transform, ...]:
        return self.options.image_transforms([MEAN], [STD])  # type: ignore[no-any-return]

    def load(self, split: str) -> ArraySplit:
        if split == "eval":
            return self.options.limited(ArraySplit(*plain_digits("eval")))  # type: ignore[no-any-return]
        folder = self._folder()
        made_from = {"samples": self.options.samples, "seed": self.options.seed, "version": VERSION}
        packed(folder, made_from, self._make)
        return self.options.limited(ArraySplit(open_packed(folder, "samples"), open_packed(folder, "labels")))  # type: ignore[no-any-return]

    def _folder(self) -> Path:
        root = Path(self.options.root).expanduser() if self.options.root else cache_root()
        return root / f"digits_million-{self.options.samples}-seed{self.options.seed}-v{VERSION}"

    def _make(self, folder: Path) -> None:
        count = self.options.samples
        for name, shape in (("samples", (count, 1, SIDE, SIDE)), ("labels", (count,))):
            np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.uint8, shape=shape)
        tasks = [(str(folder), self.options.seed, begin, min(begin + CHUNK, count)) for begin in range(0, count, CHUNK)]
        sizes = [end - begin for _, _, begin, end in tasks]
        run_chunks("making digits", _fill, tasks, sizes, num_processes(self.options.workers))


def _fill(task: Task) -> None:
    """Writes one chunk into the files, which stand at their full size."""
    folder, seed, begin, end = task
    samples, labels = deformed_digits(seed, np.arange(begin, end))
    for name, part in (("samples", samples), ("labels", labels)):
        array = np.load(Path(folder) / f"{name}.npy", mmap_mode="r+")
        array[begin:end] = part
