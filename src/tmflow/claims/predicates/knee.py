"""Speedup is near linear up to a number of workers; beyond it, where the claim says so, it no longer is."""

from __future__ import annotations

from collections.abc import Sequence

from tmflow.base.text import workers
from tmflow.claims.statements import Curve, Statement


def knee(curves: Sequence[Curve], at: int, efficiency: float, then_sublinear: bool) -> list[Statement]:
    """Speedup over workers is above `efficiency` up to `at` workers; if so asked, below it at the most workers."""
    statements = []
    for curve in curves:
        speedup = curve.speedup()
        for w in speedup.threads:
            what, share = f"speedup / workers of {curve.name}, {workers(w)}", speedup.at(w) / w
            if 1 < w <= at:
                statements.append(Statement(what, "ratio", share, low=efficiency))
            elif then_sublinear and w > at and w == max(speedup.threads):
                statements.append(Statement(what, "ratio", share, 0, efficiency))
    return statements
