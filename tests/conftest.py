"""What all tests share: no test may leave a variable, a thread or a process behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

# Set by libraries on import, once a process; not a test's leak.
TOLERATED_VARIABLES = ("PYTEST_CURRENT_TEST", "KMP_", "TORCH", "CUDA", "OMP_", "MKL_", "HYPOTHESIS", "COLUMNS", "LINES")


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fails a test that leaks an environment variable, a thread or a child process."""
    variables = dict(os.environ)
    threads = set(threading.enumerate())
    yield
    changed = {
        name
        for name in variables.keys() | os.environ.keys()
        if variables.get(name) != os.environ.get(name) and not name.startswith(TOLERATED_VARIABLES)
    }
    assert not changed, f"the test changed environment variables: {sorted(changed)}"
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        left_threads = [t for t in threading.enumerate() if t not in threads and not t.daemon]
        left_processes = [p for p in psutil.Process().children(recursive=True) if not _is_tolerated(p)]
        if not left_threads and not left_processes:
            return
        time.sleep(0.05)
    pytest.fail(f"the test left behind threads {left_threads} and processes {left_processes}")


def _is_tolerated(process: psutil.Process) -> bool:
    """Returns whether a child is no leak: it has ended, or multiprocessing keeps it until our own end."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        return "multiprocessing.resource_tracker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return True
