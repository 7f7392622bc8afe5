"""Names for the variants in a table, and its parts that one chart may show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from tmflow.point import POINT, SERIES, VARIANT, WAYS
from tmflow.strategy_parameters import PARAMETERS, parameters_of

FEW = 2  # parameters that a name tells of each variant of a strategy; if more differ, it tells only what is unusual


def panels(summary: pd.DataFrame, within: tuple[str, ...] = SERIES) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split a summary into parts that one chart may show: only the columns `within` differ inside a part.

    Yields (label, part); the label names what tells the part from the others, and is empty when there is one part. In
    a part, variants are named by what tells them apart there; where none may share a part, its label begins with the
    variant's name.
    """
    apart = "strategy" not in within
    keys = [c for c in (*POINT, "target") if c in summary and c not in within and c not in VARIANT]
    differing = [c for c in keys if _varies(summary[c])]
    varying = [c for c in differing if c != "platform_name"]
    for _, part in summary.groupby(differing or keys[:1], dropna=False, sort=False):
        first = part.iloc[0]
        told = [
            f"{name_of(str(column))} {_short(str(column), value)}" for column, value in first[varying].dropna().items()
        ]
        named = part.assign(variant=variants(part))
        for variant, rows in named.groupby("variant", sort=False) if apart else [("", named)]:
            yield ", ".join(filter(None, (str(variant), *told))), rows


def variants(table: pd.DataFrame) -> pd.Series:
    """The name of each row's variant: its strategy, with those parameters that differ among rows of that strategy.

    Where more than `FEW` do, only those are told that are not what they would be if not given, as long as that tells
    the variants apart (it does not where a run is older than a parameter). Of the `WAYS` in which rows of a strategy
    differ, those are told that are not the usual ones.
    """
    names = table["strategy"].astype(object)
    differing = [name for name in (*PARAMETERS, *WAYS) if _varies(table[name])]
    told_of = table[[*dict.fromkeys(("strategy", "spending", *differing))]]  # few columns are quick to divide
    for strategy, rows in told_of.groupby("strategy", sort=False):
        varying = [name for name in PARAMETERS if name in differing and _varies(rows[name])]
        ways = [name for name in WAYS if name in differing and rows[name].nunique() > 1]
        if varying or ways:
            groups = [alike for _, alike in rows.groupby([*varying, *ways], dropna=False, sort=False)]
            another = [{way: row[way] for way in ways if row[way] != WAYS[way]} for row in (g.iloc[0] for g in groups)]
            pairs = list(zip((alike.iloc[0] for alike in groups), another, strict=True))
            told = [_told(row[varying].dropna().to_dict() | way) for row, way in pairs]
            short = [_told(unusual(row, varying) | way) for row, way in pairs]
            if len(varying) > FEW and len(set(short)) == len(short):
                told = short
            for alike, parameters in zip(groups, told, strict=True):
                names[alike.index] = f"{strategy}{parameters}"
    return names.astype("str")


def _varies(column: pd.Series) -> bool:
    """Whether there are two values in it, unknown being one."""
    return len(column.unique()) > 1


def _told(parameters: dict[Any, Any]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in parameters.items())})" if parameters else ""


def unusual(row: pd.Series, names: Iterable[str] = PARAMETERS) -> dict[str, Any]:
    """Of these parameters those that apply to the strategy of a row and are not what they would be if not given."""
    usual = parameters_of(row["strategy"], row["spending"])
    told = row[[*names]].dropna()
    return {str(name): value for name, value in told.items() if value != usual.get(str(name))}


def name_of(column: str) -> str:
    """A column as it reads in a sentence."""
    return column.removesuffix("_sha256").replace("_", " ")


def _short(column: str, value: Any) -> str:
    return str(value)[:8] if column.endswith("_sha256") else str(value)
