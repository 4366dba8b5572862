"""Made-up token sequences that can be learnt, for trying a text model without a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.contracts import ArraySplit, Dataset, Transform
from core.datasets.options import DataOptions
from core.errors import ConfigError
from core.randomness import sample_uniforms
from core.spec import SampleSpec

FIRST_TOKEN = 1  # in the place of [CLS]
LEAST_VOCABULARY = 16


@dataclass(kw_only=True)
class SyntheticTextOptions(DataOptions):
    """The options of data=synthetic_text."""

    length: int = 32  # token ids in a sequence, padding included
    vocabulary: int = 1024  # token ids, 0 for padding
    num_classes: int = 4
    samples: int = 4096  # for training
    eval_samples: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        least = {"length": 4, "vocabulary": LEAST_VOCABULARY, "num_classes": 2, "samples": 1, "eval_samples": 1}
        for key, low in least.items():
            if getattr(self, key) < low:
                raise ConfigError(
                    f"'data.{key}' is out of range.", received=getattr(self, key), allowed=f"at least {low}"
                )


class SyntheticText(Dataset):
    """Sequences of a random length whose tokens come, a third of them, from their class's part of the vocabulary."""

    name = "synthetic_text"
    Options = SyntheticTextOptions

    def sample_spec(self) -> SampleSpec:
        return SampleSpec((self.options.length,), self.options.num_classes, self.options.vocabulary)

    def transforms(self) -> tuple[Transform, ...]:
        return ()

    def load(self, split: str) -> ArraySplit:
        options: SyntheticTextOptions = self.options
        count = options.samples if split == "train" else options.eval_samples
        ids = np.arange(count)
        labels = ids % options.num_classes

        def draw(what: str, numbers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
            return sample_uniforms(options.seed, "synthetic_text", split, what, epoch=0, ids=ids, count=numbers)

        usable = options.vocabulary - FIRST_TOKEN - 1
        own = usable // options.num_classes
        common = np.floor(draw("common", options.length) * usable)
        special = labels[:, None] * own + np.floor(draw("special", options.length) * own)
        tokens = FIRST_TOKEN + 1 + np.where(draw("kind", options.length) < 1 / 3, special, common)
        tokens[:, 0] = FIRST_TOKEN
        lengths = np.ceil(options.length * (0.5 + 0.5 * draw("length", 1)))
        tokens[np.arange(options.length)[None, :] >= lengths] = 0
        return options.limited(ArraySplit(tokens.astype(np.int32), labels))
