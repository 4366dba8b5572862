"""A pickle is read for its arrays; nothing that it names is run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from core.datasets.array_pickle import read_pickled_arrays
from core.errors import DataError
from tests.datasets.made_files import cifar_rows, python2_batch


class Creates:
    """Unpickled by `pickle.load`, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">f4"])
def test_arrays_of_python_3(tmp_path: Path, protocol: int, dtype: str) -> None:
    array = np.arange(12).astype(dtype).reshape(3, 4)
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"a": array, "b": np.asfortranarray(array), b"c": [1, 2]}, protocol=protocol))
    content = read_pickled_arrays(path)
    assert np.array_equal(content["a"], array)
    assert content["a"].dtype == array.dtype
    assert np.array_equal(content["b"], array)
    assert content["c"] == [1, 2]


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_arrays_of_python_2_and_both_names_of_numpy(tmp_path: Path, module: str) -> None:
    rows = cifar_rows(5)
    content = python2_batch(rows, {"labels": [1, 2, 3, 4, 200]})
    path = tmp_path / "file"
    path.write_bytes(content.replace(b"numpy.core.multiarray", module.encode()))
    read = read_pickled_arrays(path)
    assert np.array_equal(read["data"], rows)
    assert read["labels"] == [1, 2, 3, 4, 200]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path, protocol: int) -> None:
    made, path = tmp_path / "made", tmp_path / "file"
    path.write_bytes(pickle.dumps({"data": Creates(made), "labels": [1]}, protocol=protocol))
    with pytest.raises(DataError, match=r"posix\.mkdir.*Nothing of it was run"):
        read_pickled_arrays(path)
    assert not made.exists()


@pytest.mark.parametrize("name", [b"numpy\nload", b"builtins\neval", b"numpy.core.multiarray\nfromfile"])
def test_other_functions_of_numpy_and_python_are_refused(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x80\x02c" + name + b"\n.")
    with pytest.raises(DataError, match="Nothing of it was run"):
        read_pickled_arrays(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        pickle.dumps([1, 2]),
        pickle.dumps({"a": np.zeros(99)}, protocol=2)[:-40],
        pickle.dumps({"a": np.array([{}], dtype=object)}, protocol=2),
        b"\x80\x02c_codecs\nencode\nU\x01aU\x04zlib\x86R.",
        b"\x80\x02cnumpy\ndtype\n}U\x01xK\x01sb.",
        b"\x80\x02cnumpy\nndarray\n)R.",
        # The type of an array of objects with its flags struck out, and bytes for the objects.
        b"\x80\x02cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb.",
    ],
)
def test_damage_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged or is not a pickled dict of arrays"):
        read_pickled_arrays(path)
