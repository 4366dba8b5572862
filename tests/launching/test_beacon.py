from __future__ import annotations

from pathlib import Path

import pytest

from core.launching import beacon
from core.launching.beacon import Beacon, Sight


def test_a_beacon_is_seen_to_change(tmp_path: Path) -> None:
    sight = Sight(tmp_path / "member.json")
    assert not sight.look()
    light = Beacon(tmp_path / "member.json", token="t")
    assert sight.look()
    assert sight.said["token"] == "t"
    assert not sight.look()
    light.beat()
    assert not sight.look(), "it stands for a second"
    light.say(is_ready=True)
    assert sight.look()
    assert sight.said["is_ready"]
    assert sight.said["token"] == "t"


def test_silence_is_counted_only_while_one_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(beacon.time, "monotonic", lambda: now[0])
    Beacon(tmp_path / "member.json")
    sight = Sight(tmp_path / "member.json")
    assert sight.look()
    for _ in range(10):
        now[0] += 0.5
        assert not sight.look()
    assert sight.silence_s == pytest.approx(5.0)
    now[0] += 100.0
    sight.look()
    assert sight.silence_s == pytest.approx(6.0), "whoever looks was stopped too"


def test_a_file_that_is_just_being_written_is_not_taken_for_a_word(tmp_path: Path) -> None:
    light = Beacon(tmp_path / "member.json", token="t")
    sight = Sight(tmp_path / "member.json")
    sight.look()
    (tmp_path / "member.json").write_text("")
    assert not sight.look()
    assert sight.said["token"] == "t"
    light.say()
    assert sight.look()
