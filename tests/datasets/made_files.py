"""Small data sets in the exact formats of the published ones."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
from pathlib import Path

import numpy as np

IMAGE_BYTES = 3072


def cifar_rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, IMAGE_BYTES), dtype=np.uint8)


def write_cifar10_binary(folder: Path, count: int = 20) -> dict[str, np.ndarray]:
    """Writes six files with labels 0, 1, ...; returns their image bytes by name."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, name in enumerate((*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin")):
        rows = written[name] = cifar_rows(count, number)
        labels = (np.arange(count) % 10).astype(np.uint8)
        (folder / name).write_bytes(np.concatenate([labels[:, None], rows], axis=1).tobytes())
    return written


def write_cifar100_binary(folder: Path, count: int = 20) -> dict[str, np.ndarray]:
    """Writes two files with coarse labels 0, 1, ... and fine labels 0, 5, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, name in enumerate(("train.bin", "test.bin")):
        rows = written[name] = cifar_rows(count, number)
        labels = np.stack([np.arange(count) % 20, np.arange(count) * 5 % 100], axis=1).astype(np.uint8)
        (folder / name).write_bytes(np.concatenate([labels, rows], axis=1).tobytes())
    return written


def python2_batch(rows: np.ndarray, labels: dict[str, list[int]]) -> bytes:
    """Returns the pickle that Python 2 with protocol 2 made of a batch: texts and array bytes are byte strings."""

    def text(value: bytes) -> bytes:
        if len(value) < 256:
            return b"U" + bytes([len(value)]) + value
        return b"T" + struct.pack("<i", len(value)) + value

    def number(value: int) -> bytes:
        return b"K" + bytes([value])

    dtype = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
    dtype += b"(" + number(3) + text(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + number(0) + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"\x87R"
    shape = b"M" + struct.pack("<H", len(rows)) + b"M" + struct.pack("<H", rows.shape[1]) + b"\x86"
    array += b"(" + number(1) + shape + dtype + b"\x89" + text(rows.tobytes()) + b"tb"
    items = text(b"data") + array + text(b"batch_label") + text(b"training batch 1 of 5")
    for key, values in labels.items():
        items += text(key.encode()) + b"](" + b"".join(map(number, values)) + b"e"
    return b"\x80\x02}(" + items + b"u."


def write_cifar10_python(folder: Path, is_python2: bool, count: int = 20) -> dict[str, np.ndarray]:
    """Writes six pickles of protocol 2, as Python 2 made them or as Python 3 does."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, name in enumerate((*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")):
        rows = written[name] = cifar_rows(count, number)
        labels = [n % 10 for n in range(count)]
        batch = {"data": rows, "labels": labels, "batch_label": "x", "filenames": ["a"] * count}
        content = python2_batch(rows, {"labels": labels}) if is_python2 else pickle.dumps(batch, protocol=2)
        (folder / name).write_bytes(content)
    return written


def write_cifar100_python(folder: Path, count: int = 20) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(("train", "test")):
        labels = {"fine_labels": [n * 5 % 100 for n in range(count)], "coarse_labels": [n % 20 for n in range(count)]}
        (folder / name).write_bytes(python2_batch(cifar_rows(count, number), labels))


def write_images(root: Path) -> None:
    """Writes two classes of plain images of 9x12: image n of class k has the brightness 100 k + 10 n."""
    from PIL import Image

    for split, count in (("train", 5), ("val", 2)):
        for label, name in enumerate(("cat", "dog")):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = np.full((9, 12, 3), 100 * label + 10 * number, dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")


def made_texts(count: int) -> list[str]:
    """Returns texts in which many words are equally frequent."""
    words = [f"{a}{b}{c}" for a in "abcdefgh" for b in "klmno" for c in ("ing", "ed", "s", "er")]
    return [" ".join(words[(text * 7 + word) % len(words)] for word in range(text % 20 + 1)) for text in range(count)]


def write_texts(root: Path) -> None:
    """Writes 40 training texts and 10 for evaluation, in turn bad and good."""
    root.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 40), ("eval", 10)):
        entries = [{"text": text, "label": ("bad", "good")[n % 2]} for n, text in enumerate(made_texts(count))]
        (root / f"{name}.jsonl").write_text("\n".join(json.dumps(entry) for entry in entries))


def write_idx_pair(folder: Path, part: str, count: int, packed: bool) -> np.ndarray:
    """Writes images and labels 0, 1, ... as IDX files, gzipped if `packed`; returns the images."""
    images = np.random.default_rng(count).integers(0, 256, (count, 4, 5), dtype=np.uint8)
    image_bytes = struct.pack(">4I", 0x803, *images.shape) + images.tobytes()
    label_bytes = struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count))
    for name, content in ((f"{part}-images-idx3-ubyte", image_bytes), (f"{part}-labels-idx1-ubyte", label_bytes)):
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    return images
