"""How long one collective takes."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from core.layout import Mesh, Payload
from core.layout.transition import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER
from core.planning.hardware import Hardware, Link

Spread = tuple[int, ...]  # how many of a group's cards each machine has


def collective_seconds(payload: Payload, mesh: Mesh, hardware: Hardware) -> float:
    """Returns how long a collective takes, the slowest of its groups.

    Neighbouring ranks fill a machine, then the next. Of p cards and n bytes: a ring's all-reduce takes 2 (p - 1)
    messages of n / p bytes, all-gather and reduce-scatter p - 1 of them, an all-to-all p - 1 of n / p^2. A group that
    spans machines sends each over the slower link, save an all-reduce with as many cards on each machine: it is a
    reduce-scatter on every machine, an all-reduce of each part between machines, and an all-gather.

    Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH"; for
    several machines Mikami et al. 2018, arXiv:1811.05233 (2D-torus all-reduce).
    """
    return max(
        _group_seconds(payload.collective, payload.payload_bytes, spread, hardware)
        for spread in _spreads(mesh, payload.axes, hardware.cards_per_machine)
    )


@lru_cache(maxsize=256)
def _spreads(mesh: Mesh, axes: tuple[str, ...], per_machine: int) -> frozenset[Spread]:
    """Returns how the groups along `axes` lie over machines, each way once."""
    return frozenset(
        tuple(sorted(Counter(rank // per_machine for rank in group).values())) for group in mesh.groups(axes)
    )


def _group_seconds(collective: str, num_bytes: float, spread: Spread, hardware: Hardware) -> float:
    cards, machines, here = sum(spread), len(spread), spread[0]
    if machines == 1:
        return _ring_seconds(collective, num_bytes, cards, hardware.inside)
    if collective == ALL_REDUCE and len(set(spread)) == 1:
        return (
            _ring_seconds(REDUCE_SCATTER, num_bytes, here, hardware.inside)
            + _ring_seconds(ALL_REDUCE, num_bytes / here, machines, hardware.between)
            + _ring_seconds(ALL_GATHER, num_bytes, here, hardware.inside)
        )
    return max(_ring_seconds(collective, num_bytes, cards, link) for link in (hardware.inside, hardware.between))


def _ring_seconds(collective: str, num_bytes: float, cards: int, link: Link) -> float:
    steps = (cards - 1) * (2 if collective == ALL_REDUCE else 1)
    message = num_bytes / cards / (cards if collective == ALL_TO_ALL else 1)
    return steps * link.seconds(message)
