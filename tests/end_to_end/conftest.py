"""A run that several files compare theirs with."""

from __future__ import annotations

import pytest

from tests.end_to_end.runs import losses, train

FEW_STEPS = ("batch.global=64", "steps=6", "log.every_steps=1", "checkpoint.every_steps=3")


@pytest.fixture(scope="session")
def two_card_losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Returns the losses of FEW_STEPS on two cards of one machine, data parallel."""
    folder = tmp_path_factory.mktemp("two_cards")
    done = train(folder, "run", *FEW_STEPS, "cards=2", "sharder=data_parallel")
    assert done.returncode == 0, done.stderr
    return losses(folder / "run")
