"""Keeping memory-mapped samples out of the process's resident memory."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

# The flag is missing where the system has no such call.
DONTNEED: int | None = getattr(mmap, "MADV_DONTNEED", None)


def release_pages(array: npt.NDArray[Any]) -> None:
    """Gives back the pages of a memory-mapped array that were touched; they stay in the system's cache.

    Each sample that is read maps its page and, where the file is cached, 15 neighbours (Linux maps around a fault), so
    that an epoch in random order would count the whole file as resident. Does nothing for an array in memory.
    """
    mapping = _mapping_of(array)
    if mapping is not None and DONTNEED is not None:
        mapping.madvise(DONTNEED)


def _mapping_of(array: Any) -> mmap.mmap | None:
    """Returns the mapping behind an array or a view of one, None if there is none."""
    while isinstance(array, np.ndarray):
        if isinstance(array.base, mmap.mmap):
            return array.base
        array = array.base
    return None
