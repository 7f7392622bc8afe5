"""Names of the variants in a table, and the split of a table into panels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from tmflow.analysis.run_table import POINT, SERIES, VARIANT, WAYS, numbered
from tmflow.spec.strategies import PARAMETERS, parameters_of

ValuesByName = Mapping[str, Any]
"""The known values of a row, by column."""

# Strategies in the order of charts, tables and legends: TensorFlow's two, the study's, later ones.
STRATEGIES = (
    *("tf_lock", "tf_nolock", "lock", "nolock", "htm", "stm", "lock_pthread", "itm", "tle", "striped", "block_stm"),
    *("htm_if_fits", "atomic", "leashed", "local_steps", "combining", "spin", "spin_then_mutex", "adaptive"),
)
OF_GRAIN = ("chunk", "block")  # names omit them where a summary has the column `grain`, which takes their place
FEW = 2  # the most parameters that every name of a strategy shows; if more differ, names show only unusual values


def panels(summary: pd.DataFrame, within: tuple[str, ...] = SERIES) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split a summary into panels: within a panel only the columns `within` differ.

    Yields (label, panel), sorted by the values that differ. The label names the values that distinguish the panel from
    the others; it is empty if there is only one. Names of variants show what distinguishes them within the panel. If
    `within` excludes the strategy, each variant has a panel, and the label begins with the variant's name.
    """
    one_variant = "strategy" not in within
    keys = [c for c in (*POINT, "target") if c in summary and c not in within and c not in VARIANT]
    differing = [c for c in keys if _varies(summary[c])]
    varying = [c for c in differing if c != "platform_name" and not _follows_evidence(summary, c)]
    for _, part in summary.groupby(differing or keys[:1], dropna=False):
        first = part.iloc[0]
        labels = [
            _of_panel(str(column), value, str(first["driver"])) for column, value in first[varying].dropna().items()
        ]
        named = part.assign(variant=variants(part))
        for variant, rows in named.groupby("variant", sort=False) if one_variant else [("", named)]:
            yield ", ".join(filter(None, (str(variant), *labels))), rows


def variants(table: pd.DataFrame) -> pd.Series:
    """Name the variant of each row: its strategy, with the parameters that differ among rows of that strategy.

    If more than `FEW` parameters differ, a name shows only values other than the default, as long as that distinguishes
    the variants (it does not if a run is older than a parameter). Of the `WAYS` in which rows of a strategy differ, a
    name shows the unusual ones.
    """
    shown_elsewhere = OF_GRAIN if "grain" in table else ()
    differing = [name for name in (*PARAMETERS, *WAYS) if name not in shown_elsewhere and _varies(table[name])]
    columns = [*dict.fromkeys(("strategy", "spending", *differing))]
    number = numbered(table, columns)
    first_of_each = ~pd.Series(number, index=table.index).duplicated()  # few, even in a large table
    distinct = values_by_name(table.loc[first_of_each, columns])
    names = [""] * len(distinct)
    for strategy in dict.fromkeys(row["strategy"] for row in distinct):
        places = [place for place, row in enumerate(distinct) if row["strategy"] == strategy]
        texts = _distinguish([distinct[place] for place in places], differing)
        for place, text in zip(places, texts, strict=True):
            names[place] = f"{strategy}{text}"
    return pd.Series([names[variant] for variant in number], index=table.index, dtype="str")


def _distinguish(rows: Sequence[ValuesByName], differing: Sequence[str]) -> list[str]:
    """The text that follows the strategy's name in each of its rows; `rows` are all rows of the strategy."""
    varying = [name for name in PARAMETERS if name in differing and len({row.get(name) for row in rows}) > 1]
    ways = [name for name in WAYS if name in differing and len({row[name] for row in rows if name in row}) > 1]
    n_variants = len({tuple(row.get(name) for name in (*varying, *ways)) for row in rows})
    unusual_ways = [{way: row.get(way) for way in ways if row.get(way) != WAYS[way]} for row in rows]
    pairs = list(zip(rows, unusual_ways, strict=True))
    short = [_format(unusual(row, varying) | ways_of_row) for row, ways_of_row in pairs]
    if len(varying) > FEW and len(set(short)) == n_variants:
        return short
    return [_format({name: row[name] for name in varying if name in row} | ways_of_row) for row, ways_of_row in pairs]


def values_by_name(table: pd.DataFrame) -> list[ValuesByName]:
    """The known values of each row."""
    columns = {str(name): zip(table[name].tolist(), table[name].notna().tolist(), strict=True) for name in table}
    return [
        {name: value for name, (value, is_known) in zip(columns, cells, strict=True) if is_known}
        for cells in zip(*columns.values(), strict=True)
    ]


def _varies(column: pd.Series) -> bool:
    """Whether the column has two distinct values; unknown counts as a value."""
    return len(column.unique()) > 1


def _format(parameters: dict[Any, Any]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in parameters.items())})" if parameters else ""


def unusual(row: ValuesByName, names: Iterable[str] = PARAMETERS) -> dict[str, Any]:
    """The parameters of a row whose value is not the default of its strategy; `row`: see `values_by_name`."""
    usual = parameters_of(row["strategy"], row.get("spending"))
    return {name: row[name] for name in names if name in row and row[name] != usual.get(name)}


def has_defaults(table: pd.DataFrame, strategy: str) -> pd.Series:
    """Whether each row is of the strategy with the default values of its parameters."""
    rows = values_by_name(table[list(VARIANT)])
    return pd.Series([row["strategy"] == strategy and not unusual(row) for row in rows], index=table.index, dtype=bool)


def name_of(column: str) -> str:
    """The name of a column as text for a sentence."""
    return column.removesuffix("_sha256").replace("_", " ")


def name_of_threads(driver: str) -> str:
    """The name of the factor threads in the runs of a driver: the workers of a cluster are processes."""
    return "worker processes" if driver == "cluster" else "threads"


def _follows_evidence(summary: pd.DataFrame, column: str) -> bool:
    """Whether the kind of evidence tells the value of this column, so that a label need not."""
    if column not in ("backend", "time_domain") or "evidence" not in summary:
        return False
    return bool(summary.groupby("evidence")[column].nunique(dropna=False).max() == 1)


def _of_panel(column: str, value: Any, driver: str) -> str:
    """A value in the label of a panel. A kind of evidence needs no name before it."""
    if column == "evidence":
        return str(value)
    name = name_of_threads(driver) if column == "threads" else name_of(column)
    return f"{name} {str(value)[:8] if column.endswith('_sha256') else value}"


def ordered_variants(variants: Iterable[str]) -> list[str]:
    """Sort the distinct strategies or variants: first `STRATEGIES` in that order, then the others by name.

    Variants of a strategy are adjacent, and numbers in their names are in numerical order.
    """
    rank = {strategy: place for place, strategy in enumerate(STRATEGIES)}
    return sorted(set(variants), key=lambda name: (rank.get(name.partition(" ")[0], len(rank)), _by_value(name)))


def _by_value(name: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]
