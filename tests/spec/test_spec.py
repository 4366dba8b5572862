from __future__ import annotations

import numpy as np
import pytest

from core.errors import SpecError
from core.models.lenet5 import LeNet5
from core.spec import Conv2d, Flatten, Linear, MaxPool2d, ModelSpec, SampleSpec, initial_tensors

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
