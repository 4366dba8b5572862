"""The arguments that core.plan takes beside a run's: a hardware, and several numbers of cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.config.compose import compose
from core.config.schema import RunConfig
from core.config.typed import build_run_config, build_typed
from core.errors import ConfigError
from core.planning.hardware import Hardware

HARDWARE = "hardware"


@dataclass(frozen=True)
class PlanArguments:
    """What the command line asks for.

    Attributes:
        config: Of the run; of the first number of cards, if there are several.
        cards: The numbers of cards.
        hardware: On which to predict times; None for no prediction.
    """

    config: RunConfig
    cards: tuple[int, ...]
    hardware: Hardware | None


def parse_arguments(arguments: Sequence[str]) -> PlanArguments:
    """Returns what the arguments ask for.

    Raises:
        ConfigError: Several numbers of cards without a hardware, one that is no number, or a hardware that is wrong.
        hydra.errors.HydraException: As `core.config.compose.compose`.
    """
    overrides: list[str] = []
    cards: tuple[int, ...] = ()
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key == "cards" and "," in value:
            cards = _numbers(value)
            overrides.append(f"cards={cards[0]}")
        else:
            # A group outside the default list is added with a plus, which no user has to know.
            overrides.append(f"+{argument}" if key == HARDWARE else argument)
    values = compose(overrides)
    chosen = values.pop(HARDWARE, None)
    if len(cards) > 1 and chosen is None:
        raise ConfigError(
            "Several numbers of cards are compared on a hardware, and none is named.",
            received=f"cards={','.join(map(str, cards))}",
            remedy="Add hardware=NAME (conf/hardware/ has them), or give one number of cards.",
        )
    config = build_run_config(values)
    hardware = None if chosen is None else build_typed(Hardware, chosen, HARDWARE)
    return PlanArguments(config, cards or (config.cards,), hardware)


def _numbers(value: str) -> tuple[int, ...]:
    parts = value.strip("[]").split(",")
    if not all(part.strip().isdecimal() and int(part) >= 1 for part in parts):
        raise ConfigError("'cards' is no list of numbers.", received=value, allowed="such as cards=1,8,64")
    return tuple(int(part) for part in parts)
