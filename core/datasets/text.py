"""One's own texts with a label each: JSON-lines files, encoded once into memory-mapped token ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.contracts import ArraySplit, Dataset, Transform
from core.datasets.options import DataOptions
from core.datasets.packed import digest_of, open_packed, packed
from core.datasets.parallel import run_chunks
from core.datasets.text_lines import classes_of, label_ids, read_lines
from core.datasets.tokenization import encode, load_tokenizer, require_tokenizers, train_tokenizer
from core.errors import ConfigError, DataError
from core.spec import SampleSpec

DEFAULT_VOCABULARY = 8000
VERSION = 1  # rises when the ids change
CHUNK = 4096  # texts encoded at once
TOKENIZER = "tokenizer.json"  # in the packed training folder: what made the ids


@dataclass(kw_only=True)
class TextOptions(DataOptions):
    """The options of data=text."""

    root: str | None = None  # folder of the files; null: the current one
    train: str = "train.jsonl"
    eval: str = "eval.jsonl"
    text_key: str = "text"
    label_key: str = "label"  # integers from 0, or texts, which get ids in sorted order
    tokenizer: str | None = None  # a tokenizer.json or a BERT vocab.txt; null: trained on the training texts
    lowercase: bool | None = None  # whether a vocab.txt is of lower-case text; null: it is
    vocabulary: int | None = None  # the most tokens of a tokenizer that is trained; null: 8000
    length: int = 128  # ids a text: longer ones are cut, shorter ones padded with 0
    cache: str | None = None  # folder for the packed arrays; null: beside root, with -packed added to its name

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 3:
            raise ConfigError("'data.length' is out of range.", received=self.length, allowed="at least 3")
        if self.vocabulary is not None and self.vocabulary < 16:
            raise ConfigError("'data.vocabulary' is out of range.", received=self.vocabulary, allowed="at least 16")
        if self.vocabulary is not None and self.tokenizer is not None:
            raise ConfigError(
                "'data.vocabulary' would be without effect, since the tokenizer is not trained.",
                received=f"data.tokenizer={self.tokenizer}",
                remedy="Leave one of them null.",
            )
        if self.lowercase is not None and not str(self.tokenizer).endswith(".txt"):
            raise ConfigError(
                "'data.lowercase' would be without effect: it says how a vocab.txt is to be read.",
                received=f"data.tokenizer={self.tokenizer}",
                remedy="Leave it null: a tokenizer.json says itself, and one that is trained is of lower-case text.",
            )

    @property
    def is_lowercase(self) -> bool:
        """Whether a vocabulary file is of lower-case text."""
        return self.lowercase is not False


class Text(Dataset):
    """Token ids of texts, and their classes; classes and tokenizer are kept with the packed training arrays."""

    name = "text"
    Options = TextOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._packed: dict[str, tuple[Path, dict[str, Any]]] = {}

    def sample_spec(self) -> SampleSpec:
        found = self._pack("train")[1]
        return SampleSpec((self.options.length,), len(found["classes"]), vocabulary=found["vocabulary"])

    def transforms(self) -> tuple[Transform, ...]:
        return ()

    @property
    def _vocabulary(self) -> int:
        return self.options.vocabulary or DEFAULT_VOCABULARY

    def load(self, split: str) -> ArraySplit:
        folder, _ = self._pack(split)
        return self.options.limited(ArraySplit(open_packed(folder, "samples"), open_packed(folder, "labels")))  # type: ignore[no-any-return]

    def _pack(self, split: str) -> tuple[Path, dict[str, Any]]:
        """Returns the folder of a split's arrays and what was found in making them; they are made if need be."""
        if split not in self._packed:
            source = self._root() / getattr(self.options, split)
            made_from: dict[str, Any] = {
                "split": split,
                "file": _identity(source),
                "keys": [self.options.text_key, self.options.label_key],
                "length": self.options.length,
                "version": VERSION,
            }
            if split == "train":
                path = self._tokenizer_path()
                made_from["tokenizer"] = [_identity(path), self.options.is_lowercase] if path else self._vocabulary
            else:
                made_from["training"] = self._pack("train")[0].name
            root = self._root()
            cache = (
                Path(self.options.cache).expanduser() if self.options.cache else root.with_name(f"{root.name}-packed")
            )
            folder = cache / f"{split}-{digest_of(made_from)}"
            manifest = packed(folder, made_from, lambda temporary: self._make(split, source, temporary))
            self._packed[split] = (folder, manifest["found"])
        return self._packed[split]

    def _make(self, split: str, source: Path, folder: Path) -> dict[str, Any]:
        require_tokenizers()
        texts, labels = read_lines(source, self.options.text_key, self.options.label_key)
        if split == "train":
            classes = classes_of(labels, source)
            path = self._tokenizer_path()
            tokenizer = (
                load_tokenizer(path, self.options.is_lowercase) if path else train_tokenizer(texts, self._vocabulary)
            )
            tokenizer.save(str(folder / TOKENIZER))
        else:
            training, found = self._pack("train")
            classes, tokenizer = found["classes"], load_tokenizer(training / TOKENIZER, self.options.is_lowercase)
        np.save(folder / "labels.npy", np.array(label_ids(labels, classes, source), dtype=np.int64))
        shape = (len(texts), self.options.length)
        samples = np.lib.format.open_memmap(folder / "samples.npy", mode="w+", dtype=np.int32, shape=shape)

        def fill(begin: int) -> None:
            samples[begin : begin + CHUNK] = encode(tokenizer, texts[begin : begin + CHUNK], self.options.length)

        begins = list(range(0, len(texts), CHUNK))
        # The library encodes on all cores by itself.
        run_chunks(f"encoding {source.name}", fill, begins, [min(CHUNK, len(texts) - b) for b in begins], 1)
        samples.flush()
        return {"classes": classes, "vocabulary": max(tokenizer.get_vocab().values()) + 1}

    def _root(self) -> Path:
        return Path(self.options.root or ".").expanduser().absolute()

    def _tokenizer_path(self) -> Path | None:
        return Path(self.options.tokenizer).expanduser().absolute() if self.options.tokenizer else None


def _identity(path: Path) -> list[Any]:
    """Returns what changes when a file does: name, size and time.

    Raises:
        DataError: It is not there.
    """
    if not path.is_file():
        there = sorted(item.name for item in path.parent.glob(f"*{path.suffix}")) if path.parent.is_dir() else []
        raise DataError(
            f"{path} is missing.",
            received=f"files in that folder: {', '.join(there[:10]) or 'none'}",
            remedy="Set data.root, data.train, data.eval or data.tokenizer, or eval.every_epochs=0 to train only.",
        )
    return [path.name, path.stat().st_size, path.stat().st_mtime_ns]
