from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.data import check_dataset
from core.datasets.text import Text, TextOptions
from core.datasets.tokenization import SPECIAL, encode, load_tokenizer, train_tokenizer
from core.errors import ConfigError, DataError
from tests.commands import ROOT
from tests.datasets.made_files import made_texts, write_texts


def text(root: Path, **more) -> Text:
    return Text(
        TextOptions(root=str(root), **({} if "tokenizer" in more else {"vocabulary": 100}), **{"length": 12, **more})
    )


def test_texts_become_padded_ids(tmp_path: Path) -> None:
    write_texts(tmp_path / "data")
    data = text(tmp_path / "data")
    spec = data.sample_spec()
    assert (spec.shape, spec.num_classes) == ((12,), 2)
    assert 20 < (spec.vocabulary or 0) <= 100
    assert data.transforms() == ()
    assert check_dataset(data, ("train", "eval")) == {"train": 40, "eval": 10}
    train = data.load("train")
    assert isinstance(train.samples, np.memmap)
    assert train.samples.dtype == np.int32
    assert (train.samples[:, 0] == 2).all()
    assert ((train.samples == 3).sum(axis=1) == 1).all()
    for row in train.samples:
        end = row.tolist().index(3)
        assert (row[end + 1 :] == 0).all()
        assert (row[:end] != 0).all()
    assert train.labels[:4].tolist() == [0, 1, 0, 1]  # "bad" and "good", sorted
    (folder,) = (tmp_path / "data-packed").glob("train-*")
    assert json.loads((folder / "manifest.json").read_text())["found"]["classes"] == ["bad", "good"]


def test_arrays_are_used_again_until_something_changes(tmp_path: Path) -> None:
    write_texts(tmp_path / "data")
    for length, count in ((12, 1), (12, 1), (9, 2)):
        text(tmp_path / "data", length=length).load("eval")
        assert len(list((tmp_path / "data-packed").glob("eval-*"))) == count


PROGRAM = """
import hashlib, json
from core.datasets.tokenization import train_tokenizer
from tests.datasets.made_files import made_texts
vocabulary = sorted(train_tokenizer(made_texts(300), 150).get_vocab().items())
print(hashlib.sha256(json.dumps(vocabulary).encode()).hexdigest())
"""


def test_a_tokenizer_is_trained_the_same_each_time() -> None:
    """Also in another process, whose hash tables are ordered otherwise, and with many ties."""
    vocabularies = {json.dumps(sorted(train_tokenizer(made_texts(300), 150).get_vocab().items())) for _ in range(3)}
    assert len(vocabularies) == 1
    said = {
        subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(said) == 1


def test_a_vocabulary_of_bert_and_a_tokenizer_file(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL, "hello", "wor", "##ld", "Hello"]))
    tokenizer = load_tokenizer(path, lowercase=True)
    assert encode(tokenizer, ["Hello world xyz", "hello " * 9], 6).tolist() == [[2, 4, 5, 6, 1, 3], [2, 4, 4, 4, 4, 3]]
    assert encode(load_tokenizer(path, lowercase=False), ["Hello"], 4).tolist() == [[2, 7, 3, 0]]
    tokenizer.enable_padding(length=99)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert encode(load_tokenizer(tmp_path / "tokenizer.json", True), ["world"], 5).tolist() == [[2, 5, 6, 3, 0]]
    write_texts(tmp_path / "data")
    assert text(tmp_path / "data", tokenizer=str(path)).sample_spec().vocabulary == 8


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "[UNK]\n[PAD]\n[CLS]\n[SEP]", r"\[PAD\] is not token 0"),
        ("vocab.txt", "[PAD]\n[UNK]\n[CLS]", r"has no token \[SEP\]"),
        ("tokenizer.json", "{}", "is no tokenizer"),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_told(tmp_path: Path, name: str, content: str, message: str) -> None:
    write_texts(tmp_path / "data")
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        text(tmp_path / "data", tokenizer=str(tmp_path / name)).load("train")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "label": ', r"train\.jsonl, line 3 is not JSON"),
        ("[1]", "line 3 is not an object"),
        ('{"text": "a"}', "line 3 has no 'label'.*text"),
        ('{"text": 3, "label": "good"}', "'text' is no text"),
        ('{"text": "a", "label": 1.5}', "'label' is no label"),
        ('{"text": "a", "label": 1}', "of both kinds"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    write_texts(tmp_path)
    path = tmp_path / "train.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]))
    with pytest.raises(DataError, match=message):
        text(tmp_path, cache=str(tmp_path / "cache")).load("train")


def test_integers_are_labels_too(tmp_path: Path) -> None:
    for name in ("train", "eval"):
        (tmp_path / f"{name}.jsonl").write_text('{"t": "a b", "l": 2}\n\n{"t": "c", "l": 0}\n')
    data = text(tmp_path, cache=str(tmp_path / "cache"), text_key="t", label_key="l")
    assert data.load("train").labels.tolist() == [2, 0]
    assert data.sample_spec().num_classes == 3


def test_what_does_not_go_together_is_told(tmp_path: Path) -> None:
    data = text(tmp_path / "data", cache=str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"train\.jsonl is missing"):
        data.load("train")
    write_texts(tmp_path / "data")
    (tmp_path / "data" / "eval.jsonl").write_text('{"text": "a", "label": "odd"}')
    with pytest.raises(DataError, match=r"'odd'.*'bad', 'good'"):
        data.load("eval")
    for values in (
        {"length": 2},
        {"vocabulary": 3},
        {"vocabulary": 100, "tokenizer": "vocab.txt"},
        {"lowercase": False},
        {"lowercase": True, "tokenizer": "tokenizer.json"},
    ):
        with pytest.raises(ConfigError, match=f"data.{next(iter(values))}"):
            TextOptions(**values)


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path / "data")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"(?s)tokenizers.*anycard\[text\]"):
        text(tmp_path / "data").load("train")
