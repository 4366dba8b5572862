from __future__ import annotations

import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.contracts import ArraySplit
from core.contracts.engine import PADDING_LABEL
from core.data import BatchPlan, LastBatch, Loader, evaluation_windows
from core.data.batches import epoch_order
from core.data.mapped import _mapping_of
from core.errors import ConfigError


def split_of(count: int) -> ArraySplit:
    """Returns samples that hold their own number."""
    ids = np.arange(count, dtype=np.float32)
    return ArraySplit(np.repeat(ids[:, None], 3, axis=1), np.arange(count) % 7)


def ids_of(window, step: int) -> list[int]:
    """Returns the samples of one step of a window, padding left out."""
    real = window.labels[step] != PADDING_LABEL
    return window.samples[step][real][:, 0].astype(int).tolist()


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 200), shards=st.sampled_from([1, 2, 3, 4]), rows=st.integers(1, 9), epoch=st.integers(0, 3))
def test_the_parts_of_a_batch_are_disjoint_and_make_the_same_batch(count, shards, rows, epoch) -> None:
    split = split_of(count)
    plan = BatchPlan(count, rows * shards, shards, LastBatch.keep)
    order = epoch_order(5, epoch, count)
    parts = [
        Loader(split, plan, range(shard, shard + 1), seed=5).window(epoch, 0, plan.steps_per_epoch)
        for shard in range(shards)
    ]
    for step in range(plan.steps_per_epoch):
        seen = [number for part in parts for number in ids_of(part, step)]
        expected = order[step * rows * shards : (step + 1) * rows * shards]
        assert sorted(seen) == sorted(expected)
        assert all(part.global_counts[step] == len(expected) for part in parts)
        sizes = [len(ids_of(part, step)) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert all(part.samples.shape[1] == rows for part in parts)


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 300), shards=st.sampled_from([1, 2, 3, 4]), batch=st.integers(1, 40))
def test_evaluation_counts_each_sample_once(count, shards, batch) -> None:
    split = split_of(count)
    parts = [list(evaluation_windows(split, shard, shards, batch)) for shard in range(shards)]
    assert len({tuple(window.samples.shape for window in part) for part in parts}) == 1, (
        "all parts have the same shapes"
    )
    seen = [n for part in parts for window in part for step in range(window.num_steps) for n in ids_of(window, step)]
    assert sorted(seen) == list(range(count))
    assert sum(int(window.global_counts.sum()) for window in parts[0]) == count


def test_an_epoch_has_its_own_order_and_a_seed_too() -> None:
    assert not np.array_equal(epoch_order(0, 0, 50), epoch_order(0, 1, 50))
    assert not np.array_equal(epoch_order(0, 0, 50), epoch_order(1, 0, 50))
    assert np.array_equal(epoch_order(0, 1, 50), epoch_order(0, 1, 50))


def test_any_position_is_reached_at_once() -> None:
    plan = BatchPlan(100, 8, 1, LastBatch.keep)
    whole = Loader(split_of(100), plan, range(1), seed=1).window(2, 0, 13)
    late = Loader(split_of(100), plan, range(1), seed=1).window(2, 9, 2)
    assert np.array_equal(late.samples, whole.samples[9:11])


def test_labels_lie_beside_their_samples() -> None:
    window = Loader(split_of(50), BatchPlan(50, 8, 1, LastBatch.drop), range(1), seed=1).window(0, 0, 6)
    assert np.array_equal(window.labels, window.samples[..., 0].astype(int) % 7)
    assert window.labels.dtype == np.int64


def test_a_short_last_batch_is_dropped_when_asked() -> None:
    assert BatchPlan(50, 8, 2, LastBatch.drop).steps_per_epoch == 6
    assert BatchPlan(50, 8, 2, LastBatch.keep).steps_per_epoch == 7


def test_what_does_not_divide_or_fill_is_told() -> None:
    with pytest.raises(ConfigError, match="63 or 66"):
        BatchPlan(100, 64, 3, LastBatch.keep)
    with pytest.raises(ConfigError, match=r"batch\.last=keep"):
        BatchPlan(10, 64, 1, LastBatch.drop)


def test_the_next_window_is_prepared_ahead_on_a_thread_that_ends() -> None:
    plan = BatchPlan(100, 10, 1, LastBatch.keep)
    loader = Loader(split_of(100), plan, range(1), seed=1)
    asked: list[int] = []

    def spans():
        for first in range(10):
            asked.append(first)
            assert threading.current_thread() is threading.main_thread(), "ranks must cut windows alike"
            yield (0, first, 1)

    windows = loader.windows(spans())
    for number, window in enumerate(windows):
        assert len(asked) == min(number + 2, 10)
        assert np.array_equal(window.samples, loader.window(0, number, 1).samples)
        if number == 5:
            break
    windows.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("anycard-loader")]


def test_an_error_on_the_thread_is_raised_where_the_window_is_used() -> None:
    split = ArraySplit(np.zeros((5, 2), dtype=np.float32), np.zeros(5, dtype=np.int64))
    loader = Loader(split, BatchPlan(100, 10, 1, LastBatch.keep), range(1), seed=1)
    with pytest.raises(IndexError):
        list(loader.windows(iter([(0, 0, 5)])))


def test_rows_that_do_not_lie_one_after_the_other_are_gathered_without_a_copy_of_all() -> None:
    records = np.arange(60 * 1_000, dtype=np.uint32).reshape(1_000, 60)
    split = ArraySplit(records[:, 10:], np.zeros(1_000, dtype=np.int64))
    loader = Loader(split, BatchPlan(1_000, 10, 1, LastBatch.keep), range(1), seed=1)
    tracemalloc.start()
    window = loader.window(0, 0, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(window.samples, split.samples[window.ids[:, 0]])
    assert peak < records.nbytes / 2


def test_a_mapped_file_does_not_stay_resident(tmp_path: Path) -> None:
    """An epoch in random order through 94 MB leaves next to nothing of it in the process's memory."""
    count = 120_000
    np.save(tmp_path / "x.npy", np.zeros((count, 784), dtype=np.uint8))
    samples = np.load(tmp_path / "x.npy", mmap_mode="r").reshape(count, 1, 28, 28)
    assert _mapping_of(samples) is not None
    split = ArraySplit(samples, np.zeros(count, dtype=np.uint8))
    plan = BatchPlan(count, 64, 1, LastBatch.drop)
    loader = Loader(split, plan, range(1), seed=0)
    before = resident_file_mb()
    for first in range(0, plan.steps_per_epoch - 40, 40):
        loader.window(0, first, 40)
    assert resident_file_mb() - before < 10


def resident_file_mb() -> float:
    """Returns the file-backed resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssFile:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no RssFile in /proc/self/status")


def test_a_rank_with_several_parts_has_their_rows_in_order() -> None:
    split, plan = split_of(50), BatchPlan(50, 16, 4, LastBatch.keep)
    whole = Loader(split, plan, range(4), seed=3).window(1, 0, 4)
    halves = [Loader(split, plan, range(first, first + 2), seed=3).window(1, 0, 4) for first in (0, 2)]
    assert whole.samples.shape == (4, 16, 3)
    assert np.array_equal(whole.samples, np.concatenate([half.samples for half in halves], axis=1))
    assert np.array_equal(whole.labels, np.concatenate([half.labels for half in halves], axis=1))
    assert all(np.array_equal(whole.ids, half.ids) for half in halves)
    real = whole.ids.reshape(4, 16) >= 0
    assert np.array_equal(whole.samples[..., 0][real], whole.ids.reshape(4, 16)[real]), "each row is its id's sample"
    assert np.array_equal(real, whole.labels != PADDING_LABEL)
