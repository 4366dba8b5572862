from __future__ import annotations

import signal
from pathlib import Path

from core.launching.failure import error_of, failure_from_event, failure_from_exit, first_failure


def event(rank: int, time: float, secondary: bool = False, exit_code: int = 1) -> dict:
    return {
        "rank": rank,
        "time": time,
        "secondary": secondary,
        "exit_code": exit_code,
        "type": "RuntimeError",
        "message": f"boom {rank}",
        "trace": "Traceback\n  line\nRuntimeError: boom\n",
        "step": 7,
    }


def test_the_earliest_that_is_no_echo_is_shown() -> None:
    echo = failure_from_event(event(0, 1.0, secondary=True))
    first = failure_from_exit(2, -9, 3.0, step=5)
    later = failure_from_event(event(1, 4.0))
    assert first_failure([echo, later, first]) is first
    assert first_failure([echo]) is echo


def test_a_rank_that_the_launcher_ended_is_no_cause_though_its_clock_is_coarse() -> None:
    """torchrun stamps ends in whole seconds, which may lie before the event that caused them."""
    cause = failure_from_event(event(2, 100.7))
    for exit_code in (-signal.SIGTERM, -signal.SIGABRT):
        ended = failure_from_exit(0, exit_code, 100.0, step=7)
        assert first_failure([ended, cause]) is cause
        assert first_failure([ended]) is ended


def test_how_a_rank_died_is_told() -> None:
    assert "killed by SIGKILL" in failure_from_exit(0, -9, 0.0, None).headline
    assert "memory runs out" in failure_from_exit(0, -9, 0.0, None).headline
    assert "exited with code 7" in failure_from_exit(0, 7, 0.0, None).headline
    assert "gone without a word" in failure_from_exit(0, None, 0.0, None).headline


def test_a_users_mistake_has_no_trace_and_exit_code_2() -> None:
    mistake = error_of(failure_from_event(event(1, 0.0, exit_code=2)), Path("run"), 4)
    crash = error_of(failure_from_event(event(1, 0.0)), Path("run"), 4)
    assert mistake.exit_code == 2
    assert "Traceback" not in str(mistake)
    assert crash.exit_code == 1
    assert "rank 1 of 4 failed at step 7: RuntimeError: boom 1" in str(crash)
    assert "run/logs/rank1.log" in str(crash)
