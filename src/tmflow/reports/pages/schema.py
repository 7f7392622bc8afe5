"""The closed schema of data/pages.yaml: the tables and numbers of the docs pages, each with the runs that it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tmflow.analysis.summaries import ANY, TARGETS
from tmflow.base.documents import document, kept, read_yaml
from tmflow.base.errors import BadInput, unknown
from tmflow.base.paths import project_root
from tmflow.native import registry
from tmflow.runfile.record import Phase
from tmflow.spec.abort_codes import Family
from tmflow.spec.trial import Evidence, TrialSpec

MeasureName = Literal[
    "speedup", "speedup_vs_tf_lock", "speed", "time", "step_time", "accuracy", "time_to_accuracy", "commits", "aborted",
    "elements", "size", "lost", "torn", "inconsistent", "lock_waited", "lock_held", "staleness",
    "phases", "step_transfers", "step_bytes", "node_time", "image_rate",
]  # fmt: skip
RELATIVE = ("speed", "time")  # measures that need a base
WITH_BASE = (*RELATIVE, "speedup")  # measures that may have one
OF = {
    "variable": ("elements", "size"),
    "cause": ("aborted",),
    "target": ("time_to_accuracy",),
    "phase": ("phases",),
}
"""The keys of a query that belong to some measures only."""
REQUIRED = ("cause", "target", "phase")  # the measures of these keys need them
CAUSES = (*get_args(Family), ANY)
PHASES = get_args(Phase.model_fields["phase"].annotation)
NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"
Value = str | int | float
Factors = dict[str, Value]
BaseFactors = dict[str, Value | None]
Name = Annotated[str, Field(pattern=NAME)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Query(_Closed):
    """What a number shows, or the part of it that a row or a column of a table gives."""

    machine: str | None = Field(None, min_length=1, description="the folder in contrib/; by default that of all pages")
    experiment: str | None = Field(None, min_length=1)
    evidence: Evidence | None = None
    where: Factors = Field({}, description="the values of factors that identify the runs")
    measure: MeasureName | None = None
    base: BaseFactors | None = Field(
        None, description="of speed, time and speedup: the factors in which the base differs; null: it has none"
    )
    variable: str | None = Field(None, description="of the measures elements and size: only this variable")
    cause: str | None = Field(None, description="of aborted: a family of causes, or any")
    target: float | None = Field(None, gt=0, le=1, description="of time_to_accuracy: the test accuracy, a fraction")
    phase: str | None = Field(None, description="of phases: which part of a step")
    unit: Literal["%"] | None = Field(None, description="%: a share or an accuracy is shown as a percentage")
    digits: int | None = Field(None, ge=0, le=6, description="decimals; by default those that the interval justifies")

    def under(self, other: Query) -> Query:
        """This query with what the other gives; values of factors are added."""
        given = {name: getattr(other, name) for name in other.model_fields_set} | {"where": self.where | other.where}
        return self.model_copy(update=given)


class Table(_Closed):
    """A table: each cell shows the query of the table with what its row and its column give."""

    corner: str = Field(description="the heading of the column of rows")
    query: Query = Query()
    rows: dict[str, Query] = Field(min_length=1)
    columns: dict[str, Query] = Field(min_length=1)

    def cells(self) -> Iterator[tuple[str, str, Query]]:
        """Yield (row, column, query)."""
        for row, of_row in self.rows.items():
            for column, of_column in self.columns.items():
                yield row, column, self.query.under(of_row).under(of_column)


class ClaimsTable(_Closed):
    """The verdicts of `tmflow claims`: in a table one row for each claim, in a sentence the number of each verdict."""

    claims: Evidence
    machine: str | None = Field(None, min_length=1)
    experiments: str = Field("", description="only the claims about experiments whose names begin like this")


class RunsTable(_Closed):
    """The runs of each experiment: rounds, trials, and how they ended."""

    runs: Literal["all"]
    machine: str | None = Field(None, min_length=1)


class NoiseTable(_Closed):
    """The noise of each measured experiment: between rounds, between trials, and of the paired ratio of a round."""

    noise: Literal["measured"]
    machine: str | None = Field(None, min_length=1)


class Pages(_Closed):
    """The content of pages.yaml."""

    machine: str = Field(min_length=1, description="the folder in contrib/ whose runs are used by default")
    pages: list[str] = Field(min_length=1, description="the pages, by their paths in the repository")
    tables: dict[Name, Table | ClaimsTable | RunsTable | NoiseTable]
    values: dict[Name, Query | ClaimsTable]

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Pages:
        if twice := sorted(set(self.tables) & set(self.values)):
            raise ValueError(f"'{twice[0]}' names a table and a value")
        return self

    @property
    def machines(self) -> list[str]:
        """The folders in contrib/ that the tables and values use."""
        queries: list[Query | ClaimsTable | RunsTable | NoiseTable] = [*self.values.values()]
        for table in self.tables.values():
            queries += [query for _, _, query in table.cells()] if isinstance(table, Table) else [table]
        return sorted({query.machine or self.machine for query in queries})


def load_pages(root: Path | None = None) -> Pages:
    """Load and check data/pages.yaml of a checkout (default: this one)."""
    return _load_pages((root or project_root()) / "data" / "pages.yaml")


@kept
def _load_pages(path: Path) -> Pages:
    return check_pages(read_yaml(path))


def check_pages(raw: Any) -> Pages:
    """Check a parsed pages.yaml. Raises BadInput that names the fault, its place and what is allowed."""
    pages = document(Pages, raw, "pages.yaml")
    for name, table in pages.tables.items():
        if isinstance(table, Table):
            for row, column, query in table.cells():
                _check_query(query, f"pages.yaml: tables.{name}, row '{row}', column '{column}'")
    for name, value in pages.values.items():
        if isinstance(value, Query):
            _check_query(value, f"pages.yaml: values.{name}")
    return pages


def _check_query(query: Query, where: str) -> None:
    for needed in ("experiment", "measure"):
        if getattr(query, needed) is None:
            raise BadInput(f"{where}: '{needed}' is missing.")
    if query.measure in RELATIVE and query.base is None:
        raise BadInput(f"{where}: the measure '{query.measure}' needs 'base'.")
    if query.measure not in WITH_BASE and query.base is not None:
        raise BadInput(f"{where}: the measure '{query.measure}' has no 'base'.")
    if query.base is not None and not query.base:
        raise BadInput(f"{where}: 'base' is empty, but should have the factors in which the base differs.")
    for key, measures in OF.items():
        given = getattr(query, key) is not None
        if given and query.measure not in measures:
            raise BadInput(f"{where}: the measure '{query.measure}' has no '{key}'.")
        if not given and key in REQUIRED and query.measure in measures:
            raise BadInput(f"{where}: the measure '{query.measure}' needs '{key}'.")
    if query.target is not None and query.target not in TARGETS:
        raise BadInput(f"{where}: 'target' is {query.target}; allowed: {', '.join(map(str, TARGETS))}.")
    if query.cause is not None and query.cause not in CAUSES:
        raise unknown(f"cause in {where}:", query.cause, CAUSES)
    if query.phase is not None and query.phase not in PHASES:
        raise unknown(f"phase in {where}:", query.phase, PHASES)
    for factors in (query.where, query.base or {}):
        _check_factors(factors, where)


def _check_factors(factors: Mapping[str, Value | None], where: str) -> None:
    for factor, value in factors.items():
        if factor not in TrialSpec.model_fields:
            raise unknown(f"factor in {where}:", factor, TrialSpec.model_fields)
        if factor == "strategy" and value not in registry.names():
            raise unknown(f"strategy in {where}:", str(value), registry.names())
