"""Ending with one's parent, even when it is killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

PARENT_VARIABLE = "ANYCARD_PARENT_PID"
PR_SET_PDEATHSIG = 1
POLL_S = 1.0


def die_with_parent() -> None:
    """Ends this process by SIGKILL when its parent dies.

    The parent names itself in ANYCARD_PARENT_PID, so that a parent which died before this call is noticed too. On Linux
    the kernel sends the signal (prctl(2), PR_SET_PDEATHSIG: when the thread that started this process ends); elsewhere
    a thread looks once a second.
    """
    expected = os.environ.get(PARENT_VARIABLE)
    if expected is None:
        return
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_poll, args=(int(expected),), daemon=True).start()
    if os.getppid() != int(expected):
        os.kill(os.getpid(), signal.SIGKILL)


def _poll(expected: int) -> None:
    while os.getppid() == expected:
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGKILL)
