from __future__ import annotations

import numpy as np
import pytest

from core.errors import SpecError
from core.models.lenet5 import LeNet5
from core.spec import (
    INPUT,
    Add,
    Attention,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Embedding,
    Flatten,
    GlobalAvgPool2d,
    Linear,
    MaxPool2d,
    ModelSpec,
    Normal,
    ReLU,
    SampleSpec,
    initial_tensors,
)

LENET5 = LeNet5(None).spec(SampleSpec((1, 28, 28), 10))


def test_lenet5_has_61706_parameters_of_which_59134_are_linear() -> None:
    assert LENET5.num_parameters == 61706
    assert sum(p.num_elements for p in LENET5.parameters if p.name.startswith("fc")) == 59134


def test_names_and_shapes_are_those_of_pytorch() -> None:
    shapes = {p.name: p.shape for p in LENET5.parameters}
    assert shapes["conv1.weight"] == (6, 1, 5, 5)
    assert shapes["fc1.weight"] == (120, 400)
    assert list(shapes)[:2] == ["conv1.weight", "conv1.bias"]


def test_flops_count_two_for_a_multiply_and_add() -> None:
    conv1 = 2 * 6 * 28 * 28 * 25
    conv2 = 2 * 16 * 10 * 10 * 6 * 25
    linear = 2 * 59134 - 2 * (120 + 84 + 10)
    assert LENET5.flops == conv1 + conv2 + linear


def test_lenet5_takes_colour_images_of_another_size() -> None:
    spec = LeNet5(None).spec(SampleSpec((3, 32, 32), 100))
    assert spec.bound[-1].output_shape == (100,)


def test_lenet5_refuses_what_is_too_small() -> None:
    with pytest.raises(SpecError, match=r"data\.resize"):
        LeNet5(None).spec(SampleSpec((1, 8, 8), 10))


def test_a_layer_that_does_not_fit_is_named() -> None:
    with pytest.raises(SpecError, match=r"'fc' \(Linear\).*Received: \(5,\)"):
        ModelSpec("m", SampleSpec((5,), 2), (Linear("fc", 4, 2),))


def test_two_layers_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="two layers of one name"):
        ModelSpec("m", SampleSpec((4,), 4), (Linear("fc", 4, 4), Linear("fc", 4, 4)))


def test_a_model_ends_in_one_logit_a_class() -> None:
    with pytest.raises(SpecError, match="one logit a class"):
        ModelSpec("m", SampleSpec((4,), 3), (Linear("fc", 4, 2),))


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (Conv2d("c", 3, 8, kernel_size=3, stride=2, padding=1), (3, 7, 9), (8, 4, 5)),
        (MaxPool2d("p", kernel_size=2, stride=2), (3, 7, 9), (3, 3, 4)),
        (Flatten("f"), (3, 2, 2), (12,)),
        (Linear("l", 4, 5), (7, 4), (7, 5)),
    ],
)
def test_output_shapes(layer, shape, expected) -> None:
    assert layer.output_shape(shape) == expected


def test_initial_values_depend_on_seed_and_name_alone() -> None:
    first, again = initial_tensors(LENET5.parameters, seed=3), initial_tensors(LENET5.parameters, seed=3)
    other = initial_tensors(LENET5.parameters, seed=4)
    for name, values in first.items():
        assert values.dtype == np.float32
        assert np.array_equal(values, again[name])
        assert not np.array_equal(values, other[name])
    bound = 1 / np.sqrt(400)
    assert np.abs(first["fc1.weight"]).max() <= bound
    assert abs(first["fc1.weight"].std() - bound / np.sqrt(3)) < 0.02 * bound


def test_a_layer_takes_the_outputs_that_it_names() -> None:
    spec = ModelSpec(
        "residual",
        SampleSpec((4,), 4),
        (Linear("a", 4, 4), ReLU("r"), Linear("b", 4, 4), Add("sum", inputs=("b", "a"))),
    )
    assert [bound.inputs for bound in spec.bound] == [(INPUT,), ("a",), ("r",), ("b", "a")]
    assert [bound.layer.name for bound in spec.consumers["a"]] == ["r", "sum"]
    assert spec.consumers["sum"] == ()


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((Linear("a", 4, 4, inputs=("b",)), Linear("b", 4, 4)), "not before it: b"),
        ((Linear("a", 4, 4), Add("sum", inputs=("a",))), r"takes 2 outputs .*Received: a"),
        ((Linear("a", 4, 3), Linear("b", 3, 4), Add("sum", inputs=("a", "b"))), "two inputs of one shape"),
        ((Linear("input", 4, 4),), "two layers of one name"),
        ((Dropout("d", 1.0), Linear("a", 4, 4)), "probability"),
    ],
)
def test_a_graph_that_does_not_fit_is_refused(layers, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        ModelSpec("m", SampleSpec((4,), 4), layers)


def test_attention_wants_whole_heads_and_the_token_ids() -> None:
    attention = Attention("a", 3, inputs=("q", "k", "v", INPUT))
    assert attention.output_shape((5, 6), (5, 6), (5, 6), (5,)) == (5, 6)
    with pytest.raises(SpecError, match="multiple of 3"):
        attention.output_shape((5, 7), (5, 7), (5, 7), (5,))
    assert attention.flops((5, 6)) == 2 * 2 * 5 * 5 * 6


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (MaxPool2d("p", 3, 2, padding=1), (3, 8, 7), (3, 4, 4)),
        (AvgPool2d("p", 2, 2), (3, 8, 7), (3, 4, 3)),
        (GlobalAvgPool2d("g"), (3, 8, 7), (3,)),
        (BatchNorm2d("b", 3), (3, 8, 7), (3, 8, 7)),
        (Conv2d("c", 4, 8, 3, padding=1, groups=4, bias=False), (4, 5, 5), (8, 5, 5)),
        (Embedding("e", 10, 6, Normal(1.0)), (7,), (7, 6)),
    ],
)
def test_output_shapes_of_further_layers(layer, shape, expected) -> None:
    assert layer.output_shape(shape) == expected


def test_a_grouped_convolution_has_a_smaller_weight_and_fewer_operations() -> None:
    layer = Conv2d("c", 4, 8, 3, padding=1, groups=4, bias=False)
    (weight,) = layer.parameters()
    assert weight.shape == (8, 1, 3, 3)
    assert layer.flops((4, 5, 5)) == 2 * 8 * 25 * 9


def test_normal_initial_values_are_normal() -> None:
    values = Normal(0.02).draw(0, "w", (301, 333))
    assert values.dtype == np.float32
    assert abs(values.mean()) < 2e-4
    assert abs(values.std() - 0.02) < 2e-4
    assert abs((np.abs(values) < 0.02).mean() - 0.6827) < 5e-3
    assert np.abs(values).max() < 0.12
    assert abs(np.corrcoef(values.ravel()[:50000], values.ravel()[50000:100000])[0, 1]) < 0.02
