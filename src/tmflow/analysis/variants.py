"""Names for the variants in a table, and its parts that one chart may show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from tmflow.analysis.run_table import POINT, SERIES, VARIANT, WAYS, numbered
from tmflow.spec.strategies import PARAMETERS, parameters_of

Known = Mapping[str, Any]
"""Of a row the columns that are not unknown."""

# Strategies in the order of charts, tables and legends: TensorFlow's pair, the study's, those that came later.
STRATEGIES = (
    *("tf_lock", "tf_nolock", "lock", "nolock", "htm", "stm", "lock_pthread", "itm", "tle", "striped", "block_stm"),
    *("atomic", "leashed", "combining", "spin", "spin_then_mutex", "adaptive"),
)
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
    differing = [name for name in (*PARAMETERS, *WAYS) if _varies(table[name])]
    telling = [*dict.fromkeys(("strategy", "spending", *differing))]
    number = numbered(table, telling)
    distinct = known(table[telling][~pd.Series(number, index=table.index).duplicated()])  # few, however many rows
    of_strategies: dict[str, list[Known]] = {}
    for row in distinct:
        of_strategies.setdefault(row["strategy"], []).append(row)
    told = {strategy: _told_of(rows, differing) for strategy, rows in of_strategies.items()}
    names = [f"{row['strategy']}{told[row['strategy']](row)}" for row in distinct]
    return pd.Series([names[its] for its in number], index=table.index, dtype="str")


def _told_of(rows: Sequence[Known], differing: Sequence[str]) -> Callable[[Known], str]:
    """What is told of a row of a strategy, whose rows these are."""
    varying = [name for name in PARAMETERS if name in differing and len({row.get(name) for row in rows}) > 1]
    ways = [name for name in WAYS if name in differing and len({row[name] for row in rows if name in row}) > 1]

    def key(row: Known) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in (*varying, *ways))

    apart = {key(row): row for row in reversed(rows)}
    another = {its: {way: row.get(way) for way in ways if row.get(way) != WAYS[way]} for its, row in apart.items()}
    told = {
        its: _told({name: row[name] for name in varying if name in row} | another[its]) for its, row in apart.items()
    }
    short = {its: _told(unusual(row, varying) | another[its]) for its, row in apart.items()}
    if len(varying) > FEW and len(set(short.values())) == len(short):
        told = short
    return lambda row: told[key(row)]


def known(table: pd.DataFrame) -> list[Known]:
    """What is known of each row."""
    columns = {str(name): zip(table[name].tolist(), table[name].notna().tolist(), strict=True) for name in table}
    return [
        {name: value for name, (value, is_known) in zip(columns, cells, strict=True) if is_known}
        for cells in zip(*columns.values(), strict=True)
    ]


def _varies(column: pd.Series) -> bool:
    """Whether there are two values in it, unknown being one."""
    return len(column.unique()) > 1


def _told(parameters: dict[Any, Any]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in parameters.items())})" if parameters else ""


def unusual(row: Known, names: Iterable[str] = PARAMETERS) -> dict[str, Any]:
    """Of these parameters those that apply to the strategy of a row and are not what they would be if not given.

    The row has what is `known` of it.
    """
    usual = parameters_of(row["strategy"], row.get("spending"))
    return {name: row[name] for name in names if name in row and row[name] != usual.get(name)}


def name_of(column: str) -> str:
    """A column as it reads in a sentence."""
    return column.removesuffix("_sha256").replace("_", " ")


def _short(column: str, value: Any) -> str:
    return str(value)[:8] if column.endswith("_sha256") else str(value)


def ordered_variants(variants: Iterable[str]) -> list[str]:
    """The distinct strategies or variants, those of `STRATEGIES` first and in its order, the others by name.

    Variants of a strategy stand together, numbers in their names by value.
    """
    rank = {strategy: place for place, strategy in enumerate(STRATEGIES)}
    return sorted(set(variants), key=lambda name: (rank.get(name.partition(" ")[0], len(rank)), _by_value(name)))


def _by_value(name: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]
