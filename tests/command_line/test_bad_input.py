"""Bad input gets one clear error, exit code 2, no trace, and leaves no file."""

from __future__ import annotations

import gzip
import socket
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.commands import entries, run_module


def refused(cwd: Path, *arguments: str) -> str:
    """Runs core.train, asserts that it was refused as a user's mistake, and returns the error."""
    before = entries(cwd)
    done = run_module("core.train", *arguments, cwd=cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert entries(cwd) == before, "a refused run leaves no file"
    return done.stderr


@pytest.mark.parametrize(
    ("argument", "parts"),
    [
        ("backend=torch_npuu", ("UnknownNameError: Unknown backend 'torch_npuu'", "Did you mean 'torch_npu'?")),
        ("model=lenet", ("Unknown model 'lenet'", "Did you mean 'lenet5'?")),
        ("data=digit", ("Unknown data 'digit'", "digits (core.datasets)")),
        ("sharder=hybird", ("Unknown sharder 'hybird'", "Did you mean 'hybrid'?")),
        ("communicator=glo", ("Unknown communicator 'glo'", "Did you mean 'gloo'?")),
        ("schedule=cosin", ("Unknown schedule 'cosin'", "Did you mean 'cosine'?")),
        ("clip_norm=0", ("'clip_norm' is out of range",)),
        ("label_smoothing=1", ("'label_smoothing' is out of range",)),
        ("optimizer=adamm", ("Unknown optimizer 'adamm'", "adamw")),
        ("experiment=lenet", ("Unknown experiment 'lenet'", "lenet5_ascend")),
        ("optimizer.lrr=1", ("Unknown key 'optimizer.lrr'", "Did you mean 'optimizer.lr'?")),
        ("card=2", ("Unknown key 'card'", "Did you mean 'cards'?")),
        ("+optimizer.foo=1", ("Unknown key 'optimizer.foo'", "beta1")),
        ("+foo=1", ("Unknown key 'foo'",)),
        ("optimizer.lr=fast", ("'optimizer.lr'", "'fast'", "a number")),
        ("cards=two", ("'cards'", "'two'", "an integer")),
        ("cards=0", ("'cards' is out of range", "at least 1")),
        ("device=tpu", ("'device'", "'tpu'", "auto, cpu, npu, cuda")),
        ("batch.global=-4", ("'batch.global' is out of range", "-4")),
        ("batch.last=maybe", ("'batch.last'", "keep, drop")),
        ("on_nan=ignore", ("'on_nan'", "stop, skip")),
        ("optimizer.lr=-1", ("'optimizer.lr' is out of range",)),
        ("checkpoint.keep=0", ("'checkpoint.keep' is out of range",)),
        ("objective=accuracy", ("'objective'", "eval_accuracy")),
        ("nodes=0", ("'nodes' is out of range",)),
        ("nodes=2", ("'cards' does not divide evenly among 'nodes'", "cards=2")),
        ("launcher=slurm", ("'launcher'", "'slurm'", "local, external")),
        ("launcher=external", ("'hydra.run.dir' is not set, which launcher=external needs",)),
        ("cluster.node_rank=1", ("'cluster.node_rank' names no machine",)),
        ("cluster.rendezvous=somewhere", ("'cluster.rendezvous' is out of range", "HOST:PORT")),
        ("cluster.rendezvous=host:1234", ("'cluster.rendezvous' would be without effect on a single machine",)),
        ("cards=7", ("LayoutError: Cannot cut linear layer 'fc1'", "cards=1|2|3|4|6|12")),
        ("data.resize=[8,8]", ("SpecError", "at least 12x12", "data.resize=[28,28]")),
        ("data.limit=0", ("'data.limit' is out of range",)),
        ("communicator.algorithm=ring", ("CommunicatorError", "'gloo'", "the library offers no choice")),
        ("communicator=hccl", ("'hccl' does not serve device 'cpu'", "communicator=auto")),
        ("communicator.compress=int8", ("'communicator.compress'", "none, fp16, bf16")),
        ("resume=nowhere", ("CheckpointError", "nowhere")),
        ("data=mnist", ("DataError", "data.root")),
        ("backend.python=/no/python", ("'backend.python' does not run", "/no/python")),
    ],
)
def test_a_wrong_argument_is_named(tmp_path: Path, argument: str, parts: tuple[str, ...]) -> None:
    others = () if argument.startswith("device") else ("device=cpu",)
    error = refused(tmp_path, *others, argument)
    for part in parts:
        assert part in error, error


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("early_stop.patience=2", "eval.every_epochs=0"), ("'early_stop.patience' would be without effect",)),
        (("nodes=2", "cards=3"), ("does not divide evenly", "cards=3 nodes=2", "Use cards=2")),
        (("nodes=2", "cards=2"), ("'cluster.rendezvous' is not set, which nodes=2 needs",)),
        (
            ("nodes=2", "cards=2", "cluster.rendezvous=127.0.0.1:29500"),
            ("'hydra.run.dir' is not set, which nodes=2 needs", "share"),
        ),
        (
            ("nodes=2", "cards=2", "cluster.rendezvous=127.0.0.1:29500", "hydra.run.dir=run-${now:%S}"),
            ("'hydra.run.dir' must be a plain path",),
        ),
        (
            ("nodes=2", "cards=2", "cluster.rendezvous=192.0.2.7:29500", "hydra.run.dir=run"),
            ("Port 29500 cannot be used", "an address of machine 0"),
        ),
        (
            ("nodes=2", "cards=2", "cluster.rendezvous=127.0.0.1:29500", "hydra.run.dir=run", "backend.port=7000"),
            ("'backend.port' would be without effect",),
        ),
        (("launcher=external", "cluster.rendezvous=host:1234"), ("would be without effect, since the launcher",)),
        (("epochs=2", "steps=3"), ("'epochs' and 'steps' are both set",)),
        (("batch.accumulate=3", "batch.global=64"), ("does not divide into 3 equal parts",)),
        (("cards=3", "batch.global=64"), ("does not divide into 3 equal parts", "63 or 66")),
        (("batch.global=2000", "batch.last=drop"), ("1438 training samples do not fill", "batch.last=keep")),
    ],
)
def test_arguments_that_do_not_go_together_are_named(
    tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    error = refused(tmp_path, "device=cpu", *arguments)
    for part in parts:
        assert part in error, error


@pytest.mark.skipif(bool(list(Path("/dev").glob("davinci[0-9]*"))), reason="this machine has NPUs")
def test_an_npu_that_is_not_there_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    error = refused(tmp_path, "device=npu")
    assert "DeviceError: Device 'npu' cannot be used here" in error
    assert "no /dev/davinci0" in error
    assert "device=cpu" in error


@pytest.mark.skipif(bool(list(Path("/dev").glob("nvidia[0-9]*"))), reason="this machine has GPUs")
def test_a_gpu_that_is_not_there_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    assert "no /dev/nvidia0" in refused(tmp_path, "device=cuda")


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = refused(tmp_path, "device=cpu", f"backend.port={port}")
    assert f"Port {port} cannot be used" in error
    assert "backend.port=0" in error


def write_idx(folder: Path, num_train: int = 40, label: int = 3) -> None:
    """Writes four whole IDX files."""
    for part, count in (("train", num_train), ("t10k", 10)):
        images = struct.pack(">4I", 0x803, count, 28, 28) + bytes(count * 784)
        labels = struct.pack(">2I", 0x801, count) + bytes([label] * count)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (lambda f: (f / "train-images-idx3-ubyte").unlink(), ("missing", "train-images-idx3-ubyte", "data.root")),
        (
            lambda f: (f / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 40, 28, 28) + bytes(99)),
            ("truncated", "115 bytes", "31376 bytes"),
        ),
        (
            lambda f: (f / "train-images-idx3-ubyte").write_bytes(struct.pack(">2I", 0x801, 4) + bytes(4)),
            ("mislabelled", "labels"),
        ),
        (lambda f: (f / "train-images-idx3-ubyte").write_bytes(b"PNG"), ("not an IDX file",)),
        (lambda f: (f / "t10k-labels-idx1-ubyte.gz").write_bytes(b"\x1f\x8b\x08garbage"), ("does not unpack",)),
        (lambda f: write_idx(f, label=77), ("A label is out of range", "77", "0 to 9")),
        (
            lambda f: (f / "train-labels-idx1-ubyte.gz").write_bytes(
                gzip.compress(struct.pack(">2I", 0x801, 3) + b"abc")
            ),
            ("differ in number", "40 images", "3 labels"),
        ),
    ],
)
def test_damaged_data_is_named(tmp_path: Path, damage, parts: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_idx(data)
    damage(data)
    error = refused(tmp_path, "device=cpu", "data=idx", f"data.root={data}")
    assert error.startswith("DataError: ")
    for part in parts:
        assert part in error, error


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (np.zeros((5, 28, 28), dtype=np.float64), "float64"),
        (np.array([{}] * 5, dtype=object), "not a whole .npy file of numbers"),
        (b"no array", "not a whole .npy file of numbers"),
    ],
)
def test_arrays_that_cannot_be_used_are_named(tmp_path: Path, content, part: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / "train_samples.npy").write_bytes(content)
    else:
        np.save(tmp_path / "train_samples.npy", content, allow_pickle=True)
    np.save(tmp_path / "train_labels.npy", np.zeros(5, dtype=np.int64))
    error = refused(tmp_path, "device=cpu", "data=arrays", f"data.root={tmp_path}")
    assert part in error
    assert "train_samples.npy" in error


def test_a_trace_is_shown_when_asked_for(tmp_path: Path) -> None:
    done = run_module("core.train", "cards=0", cwd=tmp_path, environment={"HYDRA_FULL_ERROR": "1"})
    assert done.returncode != 0
    assert "Traceback" in done.stderr
