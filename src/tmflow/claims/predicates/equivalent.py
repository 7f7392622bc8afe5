"""Several configurations are the same, at every number of workers, but for what is too small to matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tmflow.base.text import workers
from tmflow.claims.statements import Curve, Statement


def equivalent(curves: Sequence[Curve], bound: float) -> list[Statement]:
    """Each pair's ratio lies between 1/(1+bound) and 1+bound."""
    return [
        Statement(f"{a.name} / {b.name}, {workers(w)}", "ratio", a.at(w) / b.at(w), 1 / (1 + bound), 1 + bound)
        for a, b in combinations(curves, 2)
        for w in a.threads
    ]


def equally_accurate(curves: Sequence[Curve], bound: float) -> list[Statement]:
    """Each pair's accuracies differ by less than `bound`, a fraction."""
    return [
        Statement(f"accuracy of {a.name} - {b.name}, {workers(w)}", "fraction", a.at(w) - b.at(w), -bound, bound)
        for a, b in combinations(curves, 2)
        for w in a.threads
    ]
