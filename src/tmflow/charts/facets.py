"""A panel of many variants as several small charts: one for each value of the parameters that its variants share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pandas as pd

from tmflow.analysis.variants import variants
from tmflow.spec.strategies import PARAMETERS

MOST = 8  # variants of which a reader can tell the lines apart
OF_ONE_COLOUR = 4  # of these at most, as a strategy has one colour


def facets(panel: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The parts of a panel of a summary, and what tells each from the others; if it is legible whole, that, unnamed.

    It is parted by the one or two parameters in which most of its strategies have variants. A strategy that has no such
    parameter is in every part, to be compared with. Variants are named by what tells them apart in their part.
    """
    drawn = panel[panel["estimate"].notna()]
    by: list[str] = []
    if drawn["variant"].nunique() > MOST:
        while len(by) < 2 and not all(map(_legible, _split(drawn, by).values())):
            more = parameter_to_part_by(drawn, by)
            if more is None:
                break
            by.append(more)
    if not by:
        return [("", panel)]
    return [(label, part.assign(variant=variants(part))) for label, part in _split(panel, by).items()]


def _legible(part: pd.DataFrame) -> bool:
    of_strategies = part.groupby("strategy")["variant"].nunique()
    return bool(of_strategies.sum() <= MOST and of_strategies.max() <= OF_ONE_COLOUR)


def parameter_to_part_by(drawn: pd.DataFrame, by: Sequence[str] = ()) -> str | None:
    """The parameter to part by, beside those in `by`.

    Most strategies differ in it; of equals, it is the one with the fewest values. Each part has two variants or more
    with it, else there were nothing to compare.
    """
    differing = {name: int(drawn.groupby("strategy")[name].nunique().gt(1).sum()) for name in PARAMETERS}
    useful = [
        name
        for name, n in differing.items()
        if n and name not in by and all(_own(part, name) > 1 for part in _split(drawn, [*by, name]).values())
    ]
    return min(useful, key=lambda name: (-differing[name], drawn[name].nunique()), default=None)


def _own(part: pd.DataFrame, parameter: str) -> int:
    """How many variants of the part have that parameter."""
    return int(part.loc[part[parameter].notna(), "variant"].nunique())


def _split(rows: pd.DataFrame, by: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The rows of each combination of values, by its name; rows without a parameter are in all."""
    parts = {}
    for values in product(*(rows[name].dropna().unique() for name in by)):
        own = pd.Series(True, index=rows.index)
        for name, value in zip(by, values, strict=True):
            own &= rows[name].isna() | (rows[name] == value).fillna(False).astype(bool)
        parts[", ".join(f"{name} {value}" for name, value in zip(by, values, strict=True))] = rows[own]
    return parts
