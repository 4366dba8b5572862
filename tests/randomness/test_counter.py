from __future__ import annotations

import numpy as np
import pytest

from core.randomness import keep_mask, sample_uniforms
from core.randomness.counter import counter_key, philox


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0, 0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(key, counter, expected) -> None:
    assert " ".join(f"{int(word):08x}" for word in philox(key, counter)) == expected


def test_a_samples_numbers_depend_on_no_other_sample() -> None:
    ids = np.array([5, 0, 123456, -1, 7])
    together = sample_uniforms(1, "x", epoch=3, ids=ids, count=6)
    assert together.shape == (5, 6)
    for row, single in enumerate(ids):
        assert np.array_equal(together[row], sample_uniforms(1, "x", epoch=3, ids=np.array([single]), count=6)[0])
    assert len(np.unique(together)) == together.size
    assert not np.array_equal(together, sample_uniforms(1, "x", epoch=4, ids=ids, count=6))
    assert not np.array_equal(together, sample_uniforms(2, "x", epoch=3, ids=ids, count=6))
    assert counter_key(1, "x") != counter_key(1, "y")


def test_uniforms_and_masks_have_their_rates() -> None:
    values = sample_uniforms(0, "rate", epoch=0, ids=np.arange(20000), count=5)
    assert abs(values.mean() - 0.5) < 0.005
    assert abs(values.std() - 12**-0.5) < 0.005
    assert np.abs(np.corrcoef(values, rowvar=False) - np.eye(5)).max() < 0.03
    kept = keep_mask(0, "drop", 1, np.arange(400), 333, 0.3)
    assert kept.shape == (400, 333)
    assert abs(kept.mean() - 0.7) < 0.005
