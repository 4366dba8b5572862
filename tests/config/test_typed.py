from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from core.config import RunConfig, build_run_config, load_frozen, save_frozen
from core.config.compose import compose_run_config
from core.config.freeze import config_digest, plain_config
from core.config.search_path import CONF
from core.config.typed import CHOICES, to_plain
from core.errors import ConfigError
from core.plugin_system import load_catalogue


def test_the_frozen_config_is_what_was_composed(tmp_path: Path) -> None:
    config = compose_run_config(["cards=4", "batch.global=64", "data.limit=10", "on_nan=skip"])
    save_frozen(config, tmp_path)
    again = load_frozen(tmp_path)
    assert again == config
    assert config_digest(again) == config_digest(config)
    assert again.batch.global_size == 64
    assert plain_config(config)["batch"]["global"] == 64


def test_a_models_config_chooses_its_sharder_and_the_command_line_wins() -> None:
    assert compose_run_config([]).sharder.name == "hybrid"
    assert compose_run_config(["sharder=tensor_parallel"]).sharder.name == "tensor_parallel"
    assert compose_run_config(["experiment=lenet5_ascend", "sharder=data_parallel"]).sharder.name == "data_parallel"


def test_the_experiment_is_the_four_card_recipe() -> None:
    config = compose_run_config(["experiment=lenet5_ascend"])
    assert (config.cards, config.batch.per_card, config.optimizer.name) == (4, 64, "adam")
    assert config.optimizer.options["lr"] == 1e-3


def test_the_defaults_of_conf_are_those_of_the_schema() -> None:
    composed = to_plain(compose_run_config([]))
    choices = {name: {"name": composed[name]["name"]} for name in CHOICES}
    bare = to_plain(build_run_config(choices))
    for key in bare.keys() - set(CHOICES):
        assert composed[key] == bare[key], key


@pytest.mark.parametrize("kind", ["backend", "model", "sharder", "communicator", "data"])
def test_every_option_of_a_group_has_a_file_and_every_file_all_keys(kind: str) -> None:
    import dataclasses

    registry = load_catalogue().registries[kind]
    for name, cls, _ in registry:
        values = yaml.safe_load((CONF / kind / f"{name}.yaml").read_text())
        values.pop("defaults", None)
        assert values.pop("name") == name
        assert set(values) == {field.name for field in dataclasses.fields(cls.Options)}, name


def test_a_damaged_frozen_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_frozen(tmp_path)


def test_the_keys_a_user_writes_are_those_of_the_schema() -> None:
    keys = set(plain_config(compose_run_config([])))
    assert keys == set(RunConfig.__dataclass_fields__)
