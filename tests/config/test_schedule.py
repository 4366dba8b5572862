from __future__ import annotations

import math

import numpy as np
import pytest

from core.config.schedule import Constant, Cosine, Step
from core.errors import ConfigError


def test_constant_stays() -> None:
    assert Constant().rates(0.1, 0, 4, 100).tolist() == [0.1] * 4


def test_cosine_goes_from_the_whole_rate_to_the_floor() -> None:
    rates = Cosine(floor=0.1).rates(2.0, 0, 101, 100)
    assert rates[0] == 2.0
    assert abs(rates[50] - 2.0 * (0.1 + 0.9 * 0.5)) < 1e-12
    assert abs(rates[100] - 0.2) < 1e-12
    assert (np.diff(rates) <= 0).all()
    assert abs(rates[25] - 2.0 * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 4)))) < 1e-12


def test_step_drops() -> None:
    rates = Step(every_steps=3, gamma=0.5).rates(1.0, 0, 8, 8)
    assert rates.tolist() == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]


@pytest.mark.parametrize("schedule", [Constant(warmup_steps=4), Cosine(warmup_steps=4), Step(warmup_steps=4)])
def test_a_warm_up_rises_linearly_to_the_whole_rate(schedule) -> None:
    rates = schedule.rates(1.0, 0, 5, 50)
    assert rates.tolist() == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_windows_of_a_run_join() -> None:
    schedule = Cosine(warmup_steps=3)
    whole = schedule.rates(1.0, 0, 20, 20)
    assert np.array_equal(np.concatenate([schedule.rates(1.0, first, 4, 20) for first in range(0, 20, 4)]), whole)


@pytest.mark.parametrize(
    "build", [lambda: Cosine(floor=2.0), lambda: Step(gamma=0.0), lambda: Constant(warmup_steps=-1)]
)
def test_settings_out_of_range_are_named(build) -> None:
    with pytest.raises(ConfigError, match="schedule"):
        build()
