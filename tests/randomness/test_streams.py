from __future__ import annotations

import numpy as np

from core.randomness import permutation, stream, uniform


def test_equal_labels_give_equal_streams_and_others_do_not() -> None:
    assert np.array_equal(uniform(1, "a", 2, count=5), uniform(1, "a", 2, count=5))
    assert not np.array_equal(uniform(1, "a", 2, count=5), uniform(1, "a", 3, count=5))
    assert not np.array_equal(uniform(1, "ab", count=5), uniform(1, "a", "b", count=5))


def test_the_stream_is_pinned() -> None:
    """These numbers are part of the promise that a seed means the same everywhere and in later versions."""
    assert stream(0, "init", "conv1.weight").random_raw(2).tolist() == [11937047380641100094, 6054892826959303261]


def test_uniform_lies_in_the_unit_interval() -> None:
    values = uniform(0, "u", count=10000)
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.02


def test_a_permutation_holds_each_once() -> None:
    assert sorted(permutation(5, "order", 1, count=1000)) == list(range(1000))
