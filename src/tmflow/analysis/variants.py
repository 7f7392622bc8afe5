"""Names of the variants in a table, and the split of a table into panels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from tmflow.analysis.run_table import POINT, SERIES, VARIANT, WAYS, numbered
from tmflow.spec.strategies import PARAMETERS, parameters_of

ValuesByName = Mapping[str, Any]
"""The columns of a row whose value is known."""

# Strategies in the order of charts, tables and legends: TensorFlow's two, the study's, later ones.
STRATEGIES = (
    *("tf_lock", "tf_nolock", "lock", "nolock", "htm", "stm", "lock_pthread", "itm", "tle", "striped", "block_stm"),
    *("atomic", "leashed", "combining", "spin", "spin_then_mutex", "adaptive"),
)
FEW = 2  # the most parameters that every name of a strategy shows; if more differ, names show only unusual values


def panels(summary: pd.DataFrame, within: tuple[str, ...] = SERIES) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split a summary into panels: within a panel only the columns `within` differ.

    Yields (label, panel). The label names the values that distinguish the panel from the others; it is empty if there
    is only one. Names of variants show what distinguishes them within the panel. If `within` excludes the strategy,
    each variant has a panel, and the label begins with the variant's name.
    """
    one_variant = "strategy" not in within
    keys = [c for c in (*POINT, "target") if c in summary and c not in within and c not in VARIANT]
    differing = [c for c in keys if _varies(summary[c])]
    varying = [c for c in differing if c != "platform_name"]
    for _, part in summary.groupby(differing or keys[:1], dropna=False, sort=False):
        first = part.iloc[0]
        labels = [
            f"{name_of(str(column))} {_shorten(str(column), value)}"
            for column, value in first[varying].dropna().items()
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
    differing = [name for name in (*PARAMETERS, *WAYS) if _varies(table[name])]
    columns = [*dict.fromkeys(("strategy", "spending", *differing))]
    number = numbered(table, columns)
    distinct = values_by_name(
        table[columns][~pd.Series(number, index=table.index).duplicated()]
    )  # few, however many rows
    by_strategy: dict[str, list[ValuesByName]] = {}
    for row in distinct:
        by_strategy.setdefault(row["strategy"], []).append(row)
    formatters = {strategy: _make_formatter(rows, differing) for strategy, rows in by_strategy.items()}
    names = [f"{row['strategy']}{formatters[row['strategy']](row)}" for row in distinct]
    return pd.Series([names[variant] for variant in number], index=table.index, dtype="str")


def _make_formatter(rows: Sequence[ValuesByName], differing: Sequence[str]) -> Callable[[ValuesByName], str]:
    """Make the function that formats the parameters of a row; `rows` are all rows of its strategy."""
    varying = [name for name in PARAMETERS if name in differing and len({row.get(name) for row in rows}) > 1]
    ways = [name for name in WAYS if name in differing and len({row[name] for row in rows if name in row}) > 1]

    def key(row: ValuesByName) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in (*varying, *ways))

    distinct = {key(row): row for row in reversed(rows)}
    unusual_ways = {k: {way: row.get(way) for way in ways if row.get(way) != WAYS[way]} for k, row in distinct.items()}
    texts = {
        k: _format({name: row[name] for name in varying if name in row} | unusual_ways[k])
        for k, row in distinct.items()
    }
    short = {k: _format(unusual(row, varying) | unusual_ways[k]) for k, row in distinct.items()}
    if len(varying) > FEW and len(set(short.values())) == len(short):
        texts = short
    return lambda row: texts[key(row)]


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
    """The parameters of a row whose value is not the default of its strategy; `row` is as from `known`."""
    usual = parameters_of(row["strategy"], row.get("spending"))
    return {name: row[name] for name in names if name in row and row[name] != usual.get(name)}


def name_of(column: str) -> str:
    """The name of a column as text for a sentence."""
    return column.removesuffix("_sha256").replace("_", " ")


def _shorten(column: str, value: Any) -> str:
    return str(value)[:8] if column.endswith("_sha256") else str(value)


def ordered_variants(variants: Iterable[str]) -> list[str]:
    """Sort the distinct strategies or variants: first `STRATEGIES` in that order, then the others by name.

    Variants of a strategy are adjacent, and numbers in their names are in numerical order.
    """
    rank = {strategy: place for place, strategy in enumerate(STRATEGIES)}
    return sorted(set(variants), key=lambda name: (rank.get(name.partition(" ")[0], len(rank)), _by_value(name)))


def _by_value(name: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]
