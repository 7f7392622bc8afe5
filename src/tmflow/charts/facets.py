"""Facets: a panel with many variants becomes small charts, one for each value of a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pandas as pd

from tmflow.analysis.variants import variants
from tmflow.spec.strategies import PARAMETERS

MOST = 8  # variants whose lines a reader can distinguish
OF_ONE_COLOUR = 4  # variants of one strategy, which share its colour


def facets(panel: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split a panel into labelled facets; a legible panel stays one facet with an empty label.

    The split uses the one or two parameters in which most strategies have variants. A strategy without such a
    parameter appears in every facet, for comparison. Variants are named by what distinguishes them in their facet.
    """
    drawn = panel[panel["estimate"].notna()]
    by: list[str] = []
    if drawn["variant"].nunique() > MOST:
        while len(by) < 2 and not all(map(_legible, _split(drawn, by).values())):
            more = choose_facet(drawn, by)
            if more is None:
                break
            by.append(more)
    if not by:
        return [("", panel)]
    return [(label, part.assign(variant=variants(part))) for label, part in _split(panel, by).items()]


def _legible(part: pd.DataFrame) -> bool:
    of_strategies = part.groupby("strategy")["variant"].nunique()
    return bool(of_strategies.sum() <= MOST and of_strategies.max() <= OF_ONE_COLOUR)


def choose_facet(drawn: pd.DataFrame, by: Sequence[str] = ()) -> str | None:
    """Choose the parameter to facet by, in addition to those in `by`; None if there is none.

    It is the one in which most strategies differ; ties go to the one with the fewest values. Each facet must have at
    least two variants with the parameter.
    """
    differing = {name: int(drawn.groupby("strategy")[name].nunique().gt(1).sum()) for name in PARAMETERS}
    useful = [
        name
        for name, n in differing.items()
        if n and name not in by and all(_count_variants(part, name) > 1 for part in _split(drawn, [*by, name]).values())
    ]
    return min(useful, key=lambda name: (-differing[name], drawn[name].nunique()), default=None)


def _count_variants(part: pd.DataFrame, parameter: str) -> int:
    """Count the variants of a facet that have this parameter."""
    return int(part.loc[part[parameter].notna(), "variant"].nunique())


def _split(rows: pd.DataFrame, by: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The rows of each combination of values, by label; rows without a parameter are in all of them."""
    parts = {}
    for values in product(*(rows[name].dropna().unique() for name in by)):
        matching = pd.Series(True, index=rows.index)
        for name, value in zip(by, values, strict=True):
            matching &= rows[name].isna() | (rows[name] == value).fillna(False).astype(bool)
        parts[", ".join(f"{name} {value}" for name, value in zip(by, values, strict=True))] = rows[matching]
    return parts
