"""The CPU's small convolutions compute what torch's own layers compute, forward and backward."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

from plugins.torch_npu_backend.cpu.image_layers import BatchFirst, BatchLast, SmallConv2d  # noqa: E402

CASES = [
    # channels, height, width, outputs, kernel, padding, pool, relu
    (1, 28, 28, 6, 5, 2, 2, True),
    (6, 14, 14, 16, 5, 0, 2, True),
    (3, 9, 11, 4, 3, 1, 2, False),
    (2, 8, 8, 5, 3, 1, 1, True),
    (2, 7, 7, 3, 1, 0, 3, True),
    (3, 12, 12, 16, 3, 0, 5, True),
    (1, 6, 6, 2, 3, 1, 3, True),
    (4, 5, 5, 3, 5, 0, 1, False),
]


def build(case: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.nn.Module, torch.nn.Module]:
    channels, _, _, outputs, kernel, padding, pool, relu = case
    torch.manual_seed(0)
    ours = SmallConv2d((outputs, channels, kernel, kernel), padding, pool, bool(relu))
    layers: list[torch.nn.Module] = [torch.nn.Conv2d(channels, outputs, kernel, padding=padding)]
    layers += [torch.nn.ReLU()] if relu else []
    layers += [torch.nn.MaxPool2d(pool)] if pool > 1 else []
    theirs = torch.nn.Sequential(*layers).to(dtype)
    with torch.no_grad():
        ours.weight.copy_(theirs[0].weight)
        ours.bias.copy_(theirs[0].bias)
    return ours, theirs


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("needs_input_gradient", [False, True])
def test_values_and_gradients_are_torchs(case, needs_input_gradient) -> None:
    ours, theirs = build(case, torch.float64)
    for batch in (5, 8, 5):  # a shape that comes back uses its buffers again
        images = torch.randn(batch, *case[:3])
        one = images.clone().requires_grad_(needs_input_gradient)
        two = images.double().requires_grad_(needs_input_gradient)
        got, expected = BatchFirst()(ours(BatchLast()(one))), theirs(two)
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)
        upstream = torch.randn_like(got)
        ours.zero_grad()
        theirs.zero_grad()
        got.backward(upstream)
        expected.backward(upstream.double())
        pairs = [(ours.weight.grad, theirs[0].weight.grad), (ours.bias.grad, theirs[0].bias.grad)]
        pairs += [(one.grad, two.grad)] if needs_input_gradient else []
        for mine, reference in pairs:
            assert (mine.double() - reference).abs().max() <= 1e-5 * reference.abs().max().clamp(min=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_ties_go_to_the_first_place_as_in_torch(case) -> None:
    """Constant images and small whole numbers make ties everywhere; the sums are exact, so the bits must agree."""
    ours, theirs = build(case, torch.float32)
    with torch.no_grad():
        for parameter, reference in ((ours.weight, theirs[0].weight), (ours.bias, theirs[0].bias)):
            parameter.copy_(torch.randint(-2, 3, parameter.shape))
            reference.copy_(parameter)
    images = torch.randint(0, 2, (4, *case[:3])).float()
    images[:2] = 1.0
    one, two = images.clone().requires_grad_(), images.clone().requires_grad_()
    got, expected = BatchFirst()(ours(BatchLast()(one))), theirs(two)
    assert torch.equal(got, expected)
    upstream = torch.randint(-3, 4, got.shape).float()
    got.backward(upstream)
    expected.backward(upstream)
    assert torch.equal(one.grad, two.grad)
    assert torch.equal(ours.weight.grad, theirs[0].weight.grad)
    assert torch.equal(ours.bias.grad, theirs[0].bias.grad)


def test_a_nan_is_not_lost() -> None:
    ours, _ = build(CASES[0], torch.float32)
    images = torch.randn(2, 1, 28, 28)
    images[0, 0, 3, 3] = float("nan")
    assert ours(BatchLast()(images)).isnan().any()


def test_a_step_leaves_no_cycle_that_holds_its_activations() -> None:
    """What a step allocates is freed when it ends, not when the collector comes by."""
    ours, _ = build(CASES[0], torch.float32)
    images = BatchLast()(torch.randn(4, 1, 28, 28))
    gc.collect()
    gc.disable()
    try:
        output = ours(images)
        output.sum().backward()
        alive = weakref.ref(output)
        del output
        assert alive() is None
    finally:
        gc.enable()
