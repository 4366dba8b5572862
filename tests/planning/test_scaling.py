"""`core.plan` with a hardware: the table, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.config.compose import compose
from core.config.search_path import CONF
from core.config.typed import build_typed
from core.contracts import Precision
from core.errors import ConfigError, LayoutError
from core.planning.arguments import parse_arguments
from core.planning.hardware import Hardware
from core.planning.scaling import Scaling, predict_scaling
from core.plugin_system import load_catalogue
from tests.commands import run_module

HARDWARES = sorted(path.stem for path in (CONF / "hardware").glob("*.yaml"))


def scaling(*arguments: str) -> Scaling:
    asked = parse_arguments(["data=synthetic", *arguments])
    assert asked.hardware is not None
    return predict_scaling(asked.config, asked.cards, load_catalogue(), asked.hardware)


@pytest.mark.parametrize("name", HARDWARES)
def test_every_hardware_is_whole(name: str) -> None:
    hardware = build_typed(Hardware, compose([f"+hardware={name}"])["hardware"], "hardware")
    assert hardware.name == name
    assert hardware.inside.bandwidth_bytes_per_s > hardware.between.bandwidth_bytes_per_s
    assert hardware.rate(Precision.fp32) < hardware.rate(Precision.amp_bf16) <= hardware.rate(Precision.amp_fp16)


def test_weak_scaling_keeps_the_batch_of_a_card_and_strong_scaling_that_of_all() -> None:
    weak = scaling("cards=8,1,64", "hardware=h200", "sharder=data_parallel", "batch.per_card=32").predictions
    assert [(one.cards, one.global_batch) for one in weak.values()] == [(1, 32), (8, 256), (64, 2048)]
    assert len({(one.time.compute_s, one.memory_bytes) for one in weak.values()}) == 1
    strong = scaling("cards=1,8", "hardware=h200", "sharder=data_parallel", "batch.global=256").predictions
    assert strong[8].time.compute_s == pytest.approx(strong[1].time.compute_s / 8)
    assert strong[8].memory_bytes < strong[1].memory_bytes


def test_a_number_of_cards_that_cannot_be_says_why_and_the_others_stay() -> None:
    found = scaling("cards=1,4,7", "hardware=a100")
    assert list(found.predictions) == [1, 4]
    assert "'fc1' by its 120 outputs over 7 cards" in found.problems[7]
    with pytest.raises(LayoutError, match="over 7 cards"):
        scaling("cards=7,11", "hardware=a100")


def test_the_table(tmp_path: Path) -> None:
    command = ("core.plan", "model=resnet18", "data=synthetic", "cards=1,8,64", "hardware=ascend910b")
    done = run_module(*command, cwd=tmp_path, environment={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    title = " ".join(done.stdout.partition("cards samples")[0].split())
    assert title == (
        "resnet18 with sharder data_parallel on ascend910b, batch.per_card=64 for each part of the batch: weak scaling"
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] in (["1"], ["8"], ["64"])]
    assert [row[1] for row in rows] == ["64", "512", "4,096"]
    assert rows[0][3] == "0"
    assert rows[0][6:8] == ["1.00", "100%"]
    assert "…" not in done.stdout, "no cell is cut in a terminal of 80 characters"
    assert "does not fit" not in done.stdout


def test_what_does_not_fit_is_marked(tmp_path: Path) -> None:
    small = ("hardware=h200", "hardware.memory_bytes=100000")
    done = run_module("core.plan", "cards=1,2", *small, "batch.global=64", cwd=tmp_path)
    assert "strong scaling" in done.stdout
    assert "! does not fit" in done.stdout


def test_one_number_of_cards_gets_the_report_and_the_prediction(tmp_path: Path) -> None:
    text = run_module("core.plan", "cards=4", "hardware=h200", cwd=tmp_path).stdout
    assert "bytes on the wire a step" in text
    assert "Predicted, not measured" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cards=1,8",), "hardware=NAME"),
        (("cards=1,x", "hardware=h200"), "'cards' is no list of numbers"),
        (("cards=1,0", "hardware=h200"), "'cards' is no list of numbers"),
        (("hardware=h200", "hardware.efficiency=0"), "'hardware.efficiency' is out of range"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_arguments(arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("core.plan", "hardware=h20"), "Unknown hardware 'h20'. Known: a100, ascend910b, h200"),
        (("core.train", "hardware=h200"), "Unknown key 'hardware'"),
        (("core.train", "+hardware=h200"), "Unknown key 'hardware'"),
    ],
)
def test_an_unknown_hardware_and_a_run_with_one_are_errors(
    tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    done = run_module(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
