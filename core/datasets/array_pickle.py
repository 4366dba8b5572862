"""Reading arrays out of a pickle without running anything that the pickle names.

A pickle is a program: it names functions and calls them. This reader knows the few names under which NumPy stores an
array and answers each with a stand-in of its own, which takes down shape, type and bytes; any other name ends the
reading before anything of the file was called. NumPy's own functions are not called either, for their `__setstate__`
trusts what it is given.

Source: `pickle.Unpickler.find_class`, "Restricting globals" in Python's documentation; `numpy.ndarray.__reduce__`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import DataError

NUMPY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")  # before and from NumPy 2
TYPE_CODES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


class _Call:
    """Answers a name of the pickle; takes no state, so that a pickle cannot change it."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("the pickle gives a state to something that has none")


class _StoredType:
    """Takes down `numpy.dtype(code).__setstate__((version, byte order, ...))`."""

    __slots__ = ("dtype",)

    def __init__(self, code: Any) -> None:
        text = _text(code)
        if text not in TYPE_CODES:
            raise pickle.UnpicklingError(f"an array of type {text!r}, which is no plain number")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        if _text(state[1]) == ">":
            self.dtype = self.dtype.newbyteorder(">")


class _StoredArray:
    """Takes down `ndarray.__setstate__((version, shape, type, is Fortran order, bytes))`."""

    __slots__ = ("array",)

    def __init__(self) -> None:
        self.array: npt.NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, stored, is_fortran, content = state
        raw = content.encode("latin1") if isinstance(content, str) else content
        if not isinstance(stored, _StoredType) or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array without type or bytes")
        self.array = np.frombuffer(raw, dtype=stored.dtype).reshape(shape, order="F" if is_fortran else "C")


def _encode(text: Any, encoding: Any) -> bytes:
    """Stands for `_codecs.encode`, by which Python 3 writes bytes into a pickle of protocol 2."""
    if not isinstance(text, str) or _text(encoding) != "latin1":
        raise pickle.UnpicklingError("bytes that are not written as latin1")
    return text.encode("latin1")


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _names() -> dict[tuple[str, str], object]:
    """Returns what stands for each name that a pickled array needs."""
    array_type = object()
    known: dict[tuple[str, str], object] = {
        ("numpy", "ndarray"): array_type,
        ("numpy", "dtype"): _Call(lambda code, *_: _StoredType(code)),
        ("_codecs", "encode"): _Call(_encode),
    }
    return known | {(module, "_reconstruct"): _Call(lambda *_: _StoredArray()) for module in NUMPY_MODULES}


class _ArrayUnpickler(pickle.Unpickler):
    """Knows the names of `_names` and no others."""

    unknown: str | None = None

    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="bytes")
        self._known = _names()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            self.unknown = f"{module}.{name}"
            raise pickle.UnpicklingError(f"the name {self.unknown}")
        return self._known[module, name]


def read_pickled_arrays(path: Path) -> dict[str, Any]:
    """Returns a pickled dict of arrays, numbers, texts and lists of them, of any protocol, from Python 2 or 3.

    Args:
        path: The file.

    Returns:
        The dict, its keys as text; arrays are read-only.

    Raises:
        DataError: The file names anything but arrays, or is damaged. Nothing of it was run.
    """
    with path.open("rb") as file:
        reader = _ArrayUnpickler(file)
        try:
            content = reader.load()
            if not isinstance(content, dict):
                raise pickle.UnpicklingError(f"a {type(content).__name__} in place of a dict")
        except Exception as error:
            # Bytes that are no pickle raise whatever they come upon.
            if reader.unknown is not None:
                raise DataError(
                    f"{path} asks for the name '{reader.unknown}', which no array needs. Nothing of it was run.",
                    allowed=", ".join(f"{module}.{name}" for module, name in sorted(_names())),
                    remedy="Do not use this file; fetch it again from where it is published.",
                ) from None
            raise DataError(
                f"{path} is damaged or is not a pickled dict of arrays.",
                received=f"{type(error).__name__}: {error}",
                remedy="Download it again.",
            ) from None
    return {_text(key): _unwrapped(value) for key, value in content.items()}


def _unwrapped(value: Any) -> Any:
    return value.array if isinstance(value, _StoredArray) else value
