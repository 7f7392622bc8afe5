"""The numbers of docs/speed.md, from the saved benchmarks beside it: `make results`.

data/speed.yaml names each number and table: the file, the row, and what its time is compared with. The page has the
same marked regions as the pages of the study's runs (`reports.pages.fill`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tmflow.analysis import stats
from tmflow.base.documents import document, read_yaml
from tmflow.base.errors import BadInput, unknown
from tmflow.benchmark import comparison
from tmflow.benchmark.plan import BEST_MUTEX
from tmflow.benchmark.storage import (
    Benchmark,
    Row,
    Saved,
    SavedReads,
    SavedSteps,
    TimedReference,
    TimedVariant,
    read_benchmark,
)
from tmflow.reports.pages.cells import number_text
from tmflow.reports.pages.fill import fill_regions
from tmflow.reports.pages.schema import NAME

FILES = Path("docs") / "speed"
PAGE = Path("docs") / "speed.md"
SCALES = {"us": 1.0, "ms": 1e-3, "%": 100.0}
Name = Annotated[str, Field(pattern=NAME)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Query(_Closed):
    """What a number shows, or the part of it that a row or a column of a table gives."""

    file: str | None = Field(None, description="a saved benchmark in docs/speed/, without .json")
    row: str | None = Field(None, description="a strategy, a reference, a step or a read, by its name in the file")
    elements: int | None = Field(None, description="of updates and reads")
    threads: int | None = Field(None, description="of updates")
    gradient: Literal["constant", "fresh"] = "constant"
    measure: Literal["time", "commits", "lost", "rest"] = Field(
        "time", description="rest: the time without the attempts, over that of `lock` (see `comparison.rests`)"
    )
    over: str | None = Field(None, description="the row to whose time the ratio is; best_mutex is the fastest mutex")
    over_threads: int | None = Field(None, description="the number of threads of that row, by default the same")
    unit: Literal["us", "ms", "%"] | None = Field(None, description="of a time or a share; none for a ratio")
    digits: int = Field(2, ge=0, le=6, description="decimals")
    bounds: bool = Field(True, description="whether the 95 % interval is shown")

    def under(self, other: Query) -> Query:
        """This query with what the other gives."""
        return self.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})


class Table(_Closed):
    """A table: each cell shows the query of the table with what its row and its column give."""

    corner: str
    query: Query
    rows: dict[str, Query] = Field(min_length=1)
    columns: dict[str, Query] = Field(min_length=1)


class SpeedPage(_Closed):
    """The content of data/speed.yaml."""

    tables: dict[Name, Table]
    values: dict[Name, Query]


def load_page(root: Path) -> SpeedPage:
    """Load and check data/speed.yaml of a checkout."""
    return document(SpeedPage, read_yaml(root / "data" / "speed.yaml"), "speed.yaml")


def filled_page(root: Path) -> dict[Path, str]:
    """The text of docs/speed.md of a checkout with the numbers of its saved benchmarks, by its path.

    Raises BadInput for a fault of data/speed.yaml or of a region of the page, for a row that a benchmark lacks, and for
    a number that the page does not show.
    """
    content = load_page(root)
    numbers, used = Numbers(root), set[str]()

    def text_of(name: str, compute: Callable[[], str]) -> str:
        used.add(name)
        return compute()

    tables = {
        name: partial(text_of, name, partial(_table_text, table, numbers, f"speed.yaml: tables.{name}"))
        for name, table in content.tables.items()
    }
    values = {
        name: partial(text_of, name, partial(numbers.text, query, f"speed.yaml: values.{name}"))
        for name, query in content.values.items()
    }
    page = root / PAGE
    text = fill_regions(page.read_text(encoding="utf-8"), page.name, tables, values)
    if unused := sorted({*tables, *values} - used):
        raise BadInput(f"speed.yaml: {PAGE} does not show '{unused[0]}'; remove it, or add its marker.")
    return {page: text}


class Numbers:
    """The numbers of the saved benchmarks in a checkout."""

    def __init__(self, root: Path) -> None:
        self._read: Callable[[str], Benchmark] = cache(lambda name: read_benchmark(root / FILES / f"{name}.json"))

    def text(self, query: Query, where: str) -> str:
        """The text of a number; `where` names the query in errors."""
        if query.file is None or query.row is None:
            raise BadInput(f"{where}: '{'file' if query.file is None else 'row'}' is missing.")
        estimate, low, high = (
            SCALES[query.unit or "us"] * number for number in self._interval(self._read(query.file), query, where)[:3]
        )
        low, high = (low, high) if query.bounds else (math.nan, math.nan)
        return number_text(estimate, low, high, query.digits) + (f" {query.unit}" if query.unit else "")

    def _interval(self, benchmark: Benchmark, query: Query, where: str) -> stats.Interval:
        match benchmark:
            case Saved():
                return _of_updates(benchmark, query, where)
            case SavedSteps():
                steps = {step.name: step.us_by_round for step in benchmark.rows}
                return _of_times(steps, query, where)
            case SavedReads():
                reads = {read.name: read.us_by_round for read in benchmark.rows if read.elements == query.elements}
                return _of_times(reads, query, where)


def _of_times(times: dict[str, list[float | None]], query: Query, where: str) -> stats.Interval:
    """The geometric mean of a row's times, or its ratio to another row, paired by round."""
    for name in filter(None, (query.row, query.over)):
        if name not in times:
            raise unknown(f"row in {where}:", name, times)
    if query.over is None:
        return comparison.geometric_mean(times[str(query.row)])
    return _require(stats.paired_ratio(times[str(query.row)], times[query.over]), where)


def _of_updates(benchmark: Saved, query: Query, where: str) -> stats.Interval:
    row = _row(benchmark, str(query.row), query, query.threads, where)
    if query.measure == "rest":
        rest = next((rest for rest in comparison.rests(benchmark) if rest.row == row), None)
        return _require(rest.ratio if rest else None, where)
    if query.measure == "time":
        if not isinstance(row, TimedReference | TimedVariant):
            raise BadInput(f"{where}: '{query.row}' is no update, so it has no time of one.")
        if query.over is None:
            return comparison.geometric_mean(row.us_by_round)
        base = _row(benchmark, query.over, query, query.over_threads or query.threads, where)
        return _require(comparison.over(row, base), where)
    share = getattr(row, {"commits": "commit_fraction", "lost": "lost_fraction"}[query.measure], None)
    if share is None:
        raise BadInput(f"{where}: '{query.row}' has no share of that kind.")
    return stats.Interval(share, math.nan, math.nan, 1)


def _row(benchmark: Saved, name: str, query: Query, threads: int | None, where: str) -> Row:
    cell = [
        row
        for row in benchmark.rows
        if (row.elements, row.threads, row.gradient) == (query.elements, threads, query.gradient)
    ]
    if name == BEST_MUTEX and (best := comparison.best_mutex(cell)):
        return best
    rows = {row.name: row for row in cell}
    if name not in rows:
        raise unknown(f"row in {where}:", name, rows)
    return rows[name]


def _require(interval: stats.Interval | None, where: str) -> stats.Interval:
    if interval is None:
        raise BadInput(f"{where}: no round has both times.")
    return interval


def _table_text(table: Table, numbers: Numbers, where: str) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in _lines(table, numbers, where))


def _lines(table: Table, numbers: Numbers, where: str) -> Iterator[list[str]]:
    yield [table.corner, *table.columns]
    yield ["---"] * (1 + len(table.columns))
    for row, of_row in table.rows.items():
        queries = {column: table.query.under(of_row).under(given) for column, given in table.columns.items()}
        cells = [numbers.text(query, f"{where}, row '{row}', column '{column}'") for column, query in queries.items()]
        yield [row, *cells]
