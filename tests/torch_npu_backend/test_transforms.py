"""Random transforms: what each choice does, and that choices belong to samples, not to batches or cards."""

from __future__ import annotations

import numpy as np
import pytest

from core.contracts import Normalize, RandomAffine, RandomCrop, RandomFlip
from core.contracts.transforms import draw_choices

torch = pytest.importorskip("torch", reason="the backend's framework is an extra")

from plugins.torch_npu_backend.transforms import Transforms  # noqa: E402

IMAGES = torch.arange(4 * 2 * 6 * 5, dtype=torch.uint8).reshape(4, 2, 6, 5)


def apply(transform, choices) -> np.ndarray:
    return Transforms((transform,))(IMAGES, [torch.as_tensor(choices)]).numpy()


def test_a_crop_is_a_window_of_the_padded_image() -> None:
    corners = np.array([[0, 0], [2, 2], [4, 1], [3, 4]])
    padded = np.pad(IMAGES.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)))
    for found, image, (top, left) in zip(apply(RandomCrop(2), corners), padded, corners, strict=True):
        assert np.array_equal(found, image[:, top : top + 6, left : left + 5])


def test_a_flip_exchanges_left_and_right_of_its_samples_alone() -> None:
    found = apply(RandomFlip(), np.array([True, False, False, True]))
    assert np.array_equal(found[[0, 3]], IMAGES.numpy()[[0, 3], :, :, ::-1])
    assert np.array_equal(found[[1, 2]], IMAGES.numpy()[[1, 2]])


def test_an_affine_map_without_range_changes_nothing_and_a_right_angle_turns() -> None:
    still = RandomAffine().choices(np.random.default_rng(0).random((4, 5)))
    np.testing.assert_allclose(apply(RandomAffine(), still), IMAGES.numpy(), atol=1e-4)
    square = IMAGES[:, :, :5].float()
    turned = RandomAffine(degrees=90).choices(np.array([[1.0, 0.5, 0.5, 0.5, 0.5]]).repeat(4, 0))
    found = Transforms((RandomAffine(degrees=90),))(square, [torch.as_tensor(turned)])
    np.testing.assert_allclose(found.numpy(), np.rot90(square.numpy(), -1, (2, 3)), atol=1e-3)


def test_an_affine_map_shifts_scales_and_shears_as_it_says() -> None:
    image = torch.zeros(1, 1, 9, 9)
    image[0, 0, 4, 6] = 1.0  # two right of the centre

    def centre_of(transform: RandomAffine, draws: list[float]) -> tuple[float, float]:
        found = Transforms((transform,))(image, [torch.as_tensor(transform.choices(np.array([draws])))])[0, 0]
        rows, columns = torch.meshgrid(torch.arange(9.0), torch.arange(9.0), indexing="ij")
        return float((rows * found).sum() / found.sum()) - 4, float((columns * found).sum() / found.sum()) - 4

    assert centre_of(RandomAffine(translate=1 / 9), [0.5, 1.0, 0.0, 0.5, 0.5]) == pytest.approx((-1, 3), abs=1e-4)
    assert centre_of(RandomAffine(scale=(1.5, 1.5)), [0.5] * 5) == pytest.approx((0, 3), abs=1e-4)
    image = image.transpose(2, 3)  # two below the centre
    assert centre_of(RandomAffine(shear=45), [0.5, 0.5, 0.5, 0.5, 0.0]) == pytest.approx((2, 2), abs=1e-4)


def test_choices_are_the_same_in_any_batch_and_new_each_epoch() -> None:
    transforms = (RandomCrop(4), RandomFlip(), Normalize((0.0,), (1.0,)), RandomAffine(10, 0.1, (0.9, 1.1), 5))
    ids = np.arange(64)
    whole = draw_choices(transforms, 3, 2, ids)
    halves = [draw_choices(transforms, 3, 2, part) for part in (ids[:32], ids[32:])]
    assert whole[2] is None
    for index in (0, 1, 3):
        assert np.array_equal(whole[index], np.concatenate([half[index] for half in halves]))
        assert not np.array_equal(whole[index], draw_choices(transforms, 3, 3, ids)[index])
    assert set(np.unique(whole[0])) == set(range(9)), "every corner comes up"


def test_without_choices_random_transforms_are_left_out() -> None:
    found = Transforms((RandomCrop(2), RandomFlip()))(IMAGES, None)
    assert np.array_equal(found.numpy(), IMAGES.numpy().astype(np.float32))
