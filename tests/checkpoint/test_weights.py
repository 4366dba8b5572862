"""Published weights: what fits, what does not, and that everything odd is named at once."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from core.checkpoint import find_weights
from core.errors import CheckpointError, ConfigError
from core.models.bert import Bert, BertOptions
from core.models.resnet import ResNet18, ResNetOptions
from core.spec import SampleSpec, initial_tensors

TEXT = SampleSpec((8,), 3, 20)
IMAGE = SampleSpec((3, 32, 32), 5)


def published(spec, seed: int = 5) -> dict[str, np.ndarray]:
    """Returns tensors of a model's names and shapes with values that no start has."""
    return {name: array + 0.5 for name, array in initial_tensors((*spec.parameters, *spec.buffers), seed).items()}


def resnet(path: Path, **options) -> ResNet18:
    return ResNet18(ResNetOptions(weights=str(path), **options))


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Path, dict[str, np.ndarray]]:
    tensors = published(ResNet18(ResNetOptions()).spec(IMAGE))
    tensors["bn1.num_batches_tracked"] = np.array(7, dtype=np.int64)
    path = tmp_path / "weights.safetensors"
    save_file(tensors, path)
    return path, tensors


def test_weights_that_fit_are_loaded_parameters_and_buffers_apart(whole) -> None:
    path, tensors = whole
    model = resnet(path)
    state = find_weights(model, model.spec(IMAGE)).load(model.spec(IMAGE), seed=0)
    assert np.array_equal(state.parameters["layer1.0.conv1.weight"], tensors["layer1.0.conv1.weight"])
    assert np.array_equal(state.buffers["bn1.running_var"], tensors["bn1.running_var"])
    assert len(state.parameters) + len(state.buffers) == len(tensors) - 1
    assert state.num_updates == 0


def test_a_folder_stands_for_the_file_in_it(tmp_path: Path, whole) -> None:
    whole[0].rename(tmp_path / "model.safetensors")
    model = resnet(tmp_path)
    assert find_weights(model, model.spec(IMAGE)).path == tmp_path / "model.safetensors"


def test_everything_odd_is_named_in_one_error(tmp_path: Path, whole) -> None:
    _, tensors = whole
    del tensors["layer1.0.bn1.weight"]
    tensors["layer9.weight"] = np.zeros(3, np.float32)
    tensors["conv1.weight"] = np.zeros((64, 1, 7, 7), np.float32)
    save_file(tensors, tmp_path / "odd.safetensors")
    model = resnet(tmp_path / "odd.safetensors")
    with pytest.raises(CheckpointError) as error:
        find_weights(model, model.spec(IMAGE))
    for phrase in (
        "'layer1.0.bn1.weight' missing",
        "'layer9.weight' unexpected",
        "'conv1.weight' has shape (64, 1, 7, 7) instead of (64, 3, 3, 3)",
    ):
        assert phrase in str(error.value)


def test_another_head_is_replaced_only_when_asked(whole) -> None:
    path, tensors = whole
    other = SampleSpec((3, 32, 32), 7)
    model = resnet(path)
    with pytest.raises(CheckpointError, match=r"(?s)'fc.weight' has shape \(5, 512\) .*model.replace_head=true"):
        find_weights(model, model.spec(other))
    asked = resnet(path, replace_head=True)
    spec = asked.spec(other)
    found = find_weights(asked, spec)
    assert found.fresh == ("fc.weight", "fc.bias")
    state = found.load(spec, seed=3)
    start = initial_tensors(spec.parameters, 3)
    assert np.array_equal(state.parameters["fc.weight"], start["fc.weight"])
    assert np.array_equal(state.parameters["conv1.weight"], tensors["conv1.weight"])


def test_a_head_that_fits_is_kept_even_when_asked(whole) -> None:
    model = resnet(whole[0], replace_head=True)
    assert find_weights(model, model.spec(IMAGE)).fresh == ()


def test_berts_other_names_and_other_heads(tmp_path: Path) -> None:
    """Pre-trained weights: no prefix, old names of the layer norm, position ids, other heads, no classifier."""
    spec = Bert(BertOptions()).spec(TEXT)
    tensors = {}
    for name, array in published(spec).items():
        if name.startswith("bert."):
            old = name.removeprefix("bert.").replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = array
    tensors["embeddings.position_ids"] = np.arange(512)[None]
    tensors["cls.predictions.bias"] = np.zeros(20, np.float32)
    save_file(tensors, tmp_path / "w.safetensors")
    with pytest.raises(CheckpointError, match=r"'classifier.weight' missing.*'cls.predictions.bias' unexpected"):
        find_weights(Bert(BertOptions(weights=str(tmp_path / "w.safetensors"))), spec)
    found = find_weights(Bert(BertOptions(weights=str(tmp_path / "w.safetensors"), replace_head=True)), spec)
    state = found.load(spec, seed=0)
    name = "bert.encoder.layer.1.output.LayerNorm.weight"
    assert np.array_equal(state.parameters[name], tensors["encoder.layer.1.output.LayerNorm.gamma"])
    assert found.fresh == ("classifier.weight", "classifier.bias")


@pytest.mark.parametrize("kind", ["F16", "F64", "BF16"])
def test_other_formats_become_float32(tmp_path: Path, whole, kind: str) -> None:
    _, tensors = whole
    path = tmp_path / "kind.safetensors"
    if kind != "BF16":
        save_file({n: a.astype({"F16": "f2", "F64": "f8"}[kind]) for n, a in tensors.items()}, path)
    else:
        header, data = {}, b""
        for name, array in tensors.items():
            words = (array.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
            offsets = [len(data), len(data) + len(words)]
            header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": offsets}
            data += words
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    model = resnet(path)
    state = find_weights(model, model.spec(IMAGE)).load(model.spec(IMAGE), seed=0)
    loaded = state.parameters["layer4.1.conv2.weight"]
    assert loaded.dtype == np.float32
    np.testing.assert_allclose(loaded, tensors["layer4.1.conv2.weight"], rtol=1e-2 if kind == "BF16" else 1e-3)


def test_what_is_no_safetensors_file_is_not_opened_as_anything_else(tmp_path: Path) -> None:
    (tmp_path / "model.pth").write_bytes(b"\x80\x04.")
    model = resnet(tmp_path / "model.pth")
    with pytest.raises(CheckpointError, match=r"(?s)no safetensors file.*no pickle is read"):
        find_weights(model, model.spec(IMAGE))
    model = resnet(tmp_path / "nothing.safetensors")
    with pytest.raises(CheckpointError, match="not there"):
        find_weights(model, model.spec(IMAGE))


def test_replacing_the_head_of_nothing_is_an_error() -> None:
    with pytest.raises(ConfigError, match="without effect"):
        ResNetOptions(replace_head=True)
