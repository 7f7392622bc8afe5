"""The order of a round: shuffled by a seed of its own, in a process for each environment that points need."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tmflow.base.canonical_json import sha256_of

Point = TypeVar("Point")


def order_seed(campaign_uid: str, definition_sha256: str, number: int) -> int:
    """Another one for every round of every campaign."""
    return int(sha256_of([campaign_uid, definition_sha256, number])[:8], 16)


def processes(
    points: Iterable[Point], seed: int, environment: Callable[[Point], Mapping[str, str]]
) -> list[list[Point]]:
    """The points of each process of a round: one for each environment that points need, most often one in all.

    Processes and their points are in the round's order.
    """
    order = random.Random(seed)
    shuffled = list(points)
    order.shuffle(shuffled)
    alike: dict[frozenset[tuple[str, str]], list[Point]] = {}
    for point in shuffled:
        alike.setdefault(frozenset(environment(point).items()), []).append(point)
    found = list(alike.values())
    order.shuffle(found)
    return found
