"""A share (of commits, of right answers, of aborts) is above or below a threshold at every number of workers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tmflow.base.text import workers
from tmflow.claims.statements import Curve, Statement


def share_above(curves: Sequence[Curve], threshold: float, of_what: str) -> list[Statement]:
    return [
        Statement(f"{of_what} of {curve.name}, {workers(w)}", "fraction", curve.at(w), low=threshold)
        for curve in curves
        for w in curve.threads
    ]


def share_below(curves: Sequence[Curve], threshold: float, of_what: str) -> list[Statement]:
    return [
        Statement(f"{of_what} of {curve.name}, {workers(w)}", "fraction", curve.at(w), high=threshold)
        for curve in curves
        for w in curve.threads
    ]


def rising_share(curves: Sequence[Curve], of_what: str) -> list[Statement]:
    """On average over the workers, each curve's share is above that of the one before."""
    return [
        Statement(f"{of_what}: {b.name} - {a.name} on average", "fraction", (b.values - a.values).mean(axis=0), low=0)
        for a, b in pairwise(curves)
    ]
