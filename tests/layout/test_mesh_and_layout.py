from __future__ import annotations

import numpy as np
import pytest

from core.errors import LayoutError
from core.layout import Axis, Layout, Mesh, Replicate, Shard
from core.models.lenet5 import LeNet5
from core.spec import Constant, Linear, ModelSpec, ParameterSpec, SampleSpec

GRID = Mesh((Axis("dp", 2), Axis("tp", 3)))


def test_last_axis_varies_fastest() -> None:
    assert [GRID.coordinates(rank) for rank in (0, 1, 3)] == [
        {"dp": 0, "tp": 0},
        {"dp": 0, "tp": 1},
        {"dp": 1, "tp": 0},
    ]


def test_groups_hold_the_ranks_that_differ_along_the_axes_alone() -> None:
    assert GRID.groups(("tp",)) == ((0, 1, 2), (3, 4, 5))
    assert GRID.groups(("dp",)) == ((0, 3), (1, 4), (2, 5))
    assert GRID.groups(("dp", "tp")) == ((0, 1, 2, 3, 4, 5),)


def test_local_slices_tile_the_tensor() -> None:
    parameter = ParameterSpec("w", (4, 6), Constant(0.0))
    layout = Layout("test", GRID, (Shard(0), Replicate()), {"w": (Shard(0), Shard(1))})
    covered = np.zeros(parameter.shape, dtype=int)
    for rank in range(GRID.num_cards):
        part = covered[layout.local_slices(parameter, rank)]
        assert part.shape == layout.local_shape(parameter) == (2, 2)
        part += 1
    assert (covered == 1).all()


def test_two_axes_can_cut_one_dim() -> None:
    parameter = ParameterSpec("w", (12,), Constant(0.0))
    layout = Layout("test", GRID, (Shard(0), Replicate()), {"w": (Shard(0), Shard(0))})
    starts = [layout.local_slices(parameter, rank)[0].start for rank in range(6)]
    assert starts == [0, 2, 4, 6, 8, 10]


def test_batch_shards_count_the_axes_that_split_the_batch() -> None:
    layout = Layout("test", GRID, (Shard(0), Replicate()), {})
    assert layout.num_batch_shards == 2
    assert [layout.batch_shard(rank) for rank in range(6)] == [0, 0, 0, 1, 1, 1]


def test_what_does_not_divide_names_tensor_dim_axis_and_size() -> None:
    parameter = ParameterSpec("fc1.weight", (120, 400), Constant(0.0))
    layout = Layout("test", Mesh((Axis("tp", 7),)), (Replicate(),), {"fc1.weight": (Shard(0),)})
    with pytest.raises(LayoutError, match=r"'fc1.weight' of shape \(120, 400\) on dim 0 over axis 'tp' of size 7") as e:
        layout.local_shape(parameter)
    assert "divides 120" in str(e.value)


def test_a_layout_must_place_every_parameter() -> None:
    spec = LeNet5(None).spec(SampleSpec((1, 28, 28), 10))
    layout = Layout("test", Mesh((Axis("dp", 2),)), (Shard(0),), {"conv1.weight": (Replicate(),)})
    with pytest.raises(LayoutError, match=r"fc3\.bias"):
        layout.check(spec)


def test_a_layout_needs_one_placement_an_axis() -> None:
    spec = ModelSpec("m", SampleSpec((3,), 2), (Linear("fc", 3, 2),))
    layout = Layout("test", GRID, (Shard(0), Replicate()), {"fc.weight": (Replicate(),), "fc.bias": (Replicate(),)})
    with pytest.raises(LayoutError, match="one placement for each axis"):
        layout.check(spec)
