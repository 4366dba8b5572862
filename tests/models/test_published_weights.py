"""Weights saved by plain torch code load under their public names and give the same logits and updates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.checkpoint import find_weights
from core.contracts import SGD
from core.models.bert import Bert, BertOptions, Size
from core.models.mobilenet_v2 import MobileNetV2, MobileNetV2Options
from core.models.resnet import ResNet18, ResNet50, ResNetOptions
from core.spec import SampleSpec

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

from safetensors.torch import save_file  # noqa: E402

from tests.models.published.bert import Bert as PlainBert  # noqa: E402
from tests.models.published.mobilenet_v2 import MobileNetV2 as PlainMobileNetV2  # noqa: E402
from tests.models.published.resnet import ResNet as PlainResNet  # noqa: E402
from tests.torch_npu_backend.single_card import build_engine  # noqa: E402
from tests.torch_npu_backend.windows import of  # noqa: E402

RANDOM = np.random.default_rng(0)


def images(count: int, side: int) -> np.ndarray:
    return RANDOM.normal(size=(count, 3, side, side)).astype(np.float32)


def texts(count: int, length: int) -> np.ndarray:
    ids = RANDOM.integers(1, 50, size=(count, length)).astype(np.int32)
    ids[0, length // 2 :] = 0
    return ids


CASES = {
    "resnet18, cifar stem": (
        lambda path: ResNet18(ResNetOptions(weights=path)),
        lambda: PlainResNet([2, 2, 2, 2], False, 10, cifar_stem=True),
        SampleSpec((3, 32, 32), 10),
        images(8, 32),
    ),
    "resnet50": (
        lambda path: ResNet50(ResNetOptions(weights=path)),
        lambda: PlainResNet([3, 4, 6, 3], True, 10, cifar_stem=False),
        SampleSpec((3, 64, 64), 10),
        images(4, 64),
    ),
    "mobilenet_v2": (
        lambda path: MobileNetV2(MobileNetV2Options(weights=path, dropout=0.0)),
        lambda: PlainMobileNetV2(10),
        SampleSpec((3, 64, 64), 10),
        images(4, 64),
    ),
    "bert tiny": (
        lambda path: Bert(BertOptions(weights=path, dropout=0.0)),
        lambda: PlainBert(2, 128, 2, 50, 10),
        SampleSpec((12,), 10, 50),
        texts(6, 12),
    ),
    "bert base": (
        lambda path: Bert(BertOptions(weights=path, dropout=0.0, size=Size.base)),
        lambda: PlainBert(12, 768, 12, 50, 10),
        SampleSpec((12,), 10, 50),
        texts(6, 12),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_logits_before_and_after_a_step(tmp_path: Path, case: str) -> None:
    build, build_plain, sample, samples = CASES[case]
    torch.manual_seed(0)
    plain = build_plain()
    for name, buffer in plain.named_buffers():  # statistics that differ from their start
        if name.endswith(("running_mean", "running_var")):
            buffer.add_(torch.rand_like(buffer) * 0.1)
    save_file(plain.state_dict(), tmp_path / "weights.safetensors")
    model = build(str(tmp_path / "weights.safetensors"))
    spec = model.spec(sample)
    engine = build_engine(spec, SGD(lr=1e-3, momentum=0.0))
    engine.load(find_weights(model, spec).load(spec, seed=0))

    inputs = torch.from_numpy(samples).long() if sample.vocabulary else torch.from_numpy(samples)
    labels = np.arange(len(samples)) % sample.num_classes
    plain.eval()
    engine._model.eval()
    with torch.no_grad():
        ours = engine._model(engine._prepare(torch.from_numpy(samples), None))
        np.testing.assert_allclose(ours.numpy(), plain(inputs).numpy(), atol=1e-5, rtol=1e-5)

    plain.train()
    for module in plain.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss = torch.nn.functional.cross_entropy(plain(inputs), torch.from_numpy(labels))
    loss.backward()
    with torch.no_grad():
        for parameter in plain.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
    result = engine.train(of(samples[None], labels[None], len(samples)), np.full(1, 1e-3))
    assert abs(result.losses[0] - loss.item()) < 1e-4
    state, expected = engine.gather(), plain.state_dict()
    for name, array in (state.parameters | state.buffers).items():
        # The gradient through batch norms over few rows loses digits, so a step is compared by its size.
        np.testing.assert_allclose(array, expected[name].numpy(), atol=2e-3, rtol=1e-3, err_msg=name)
