"""Reading labelled texts from JSON-lines files: an object a line, with a text and a label."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from core.errors import DataError

Label = int | str


def read_lines(path: Path, text_key: str, label_key: str) -> tuple[list[str], list[Label]]:
    """Returns the texts and labels of a file in order; empty lines are left out.

    Raises:
        DataError: The file is missing or not UTF-8; a line is no JSON object or lacks a key; says which.
    """
    texts: list[str] = []
    labels: list[Label] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    text, label = _read_line(line, f"{path}, line {number}", text_key, label_key)
                    texts.append(text)
                    labels.append(label)
    except FileNotFoundError:
        raise DataError(f"{path} is missing.", remedy="Set data.root, data.train or data.eval.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text.", received=str(error)) from None
    if not texts:
        raise DataError(f"{path} holds no text.")
    return texts, labels


def classes_of(labels: Sequence[Label], path: Path) -> list[Label]:
    """Returns the classes in the order of their ids: texts sorted; integers 0 to the largest.

    Raises:
        DataError: The labels are of both kinds, or one is negative.
    """
    if all(isinstance(label, str) for label in labels):
        return sorted(set(labels), key=str)
    if all(isinstance(label, int) for label in labels):
        numbers = {int(label) for label in labels}
        if min(numbers) < 0:
            raise DataError(f"A label of {path} is out of range.", received=min(numbers), allowed="at least 0")
        return list(range(max(numbers) + 1))
    raise DataError(f"The labels of {path} are of both kinds.", allowed="all integers, or all texts")


def label_ids(labels: Sequence[Label], classes: Sequence[Label], path: Path) -> list[int]:
    """Returns the id of each label.

    Raises:
        DataError: Training knows a label not.
    """
    ids = {label: number for number, label in enumerate(classes)}
    unknown = [label for label in labels if label not in ids]
    if unknown:
        raise DataError(
            f"{path} holds a label that the training file does not.", received=repr(unknown[0]), allowed=_few(classes)
        )
    return [ids[label] for label in labels]


def _read_line(line: str, where: str, text_key: str, label_key: str) -> tuple[str, Label]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON.", received=str(error)) from None
    if not isinstance(entry, dict):
        raise DataError(
            f"{where} is not an object.", received=type(entry).__name__, allowed='{"text": ..., "label": ...}'
        )
    for key in (text_key, label_key):
        if key not in entry:
            raise DataError(
                f"{where} has no '{key}'.", received=", ".join(entry), remedy="Set data.text_key or data.label_key."
            )
    text, label = entry[text_key], entry[label_key]
    if not isinstance(text, str):
        raise DataError(f"{where}: '{text_key}' is no text.", received=repr(text))
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise DataError(f"{where}: '{label_key}' is no label.", received=repr(label), allowed="an integer or a text")
    return text, label


def _few(classes: Sequence[Label]) -> str:
    return ", ".join(map(repr, classes[:10])) + (", ..." if len(classes) > 10 else "")
