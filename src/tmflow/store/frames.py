"""Data frames from queries: the columns of a run, their types, their sums, and which runs are visible."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Integer,
    Label,
    Select,
    Text,
    case,
    cast,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.functions import count
from sqlalchemy.types import TypeEngine

from tmflow.platform.facts import IDENTITY_DIGITS, KEY_SEPARATOR, LONGEST_S, STEP_S, contribution_of, slug_of
from tmflow.store.engine import explain_errors
from tmflow.store.models import (
    Backend,
    Campaign,
    Contribution,
    Environment,
    Experiment,
    Platform,
    Real,
    Round,
    RoundTally,
    Run,
    Spec,
)
from tmflow.store.rows import chunks

Source = Engine | Connection
Statement = Select[Any]

# The dtypes of each kind of column: without NULL, and with NULL.
_DTYPES: tuple[tuple[type[TypeEngine[Any]], tuple[str, str]], ...] = (
    (Boolean, ("bool", "boolean")),
    (Integer, ("int64", "Int64")),
    (Float, ("float64", "float64")),
    (Text, ("str", "str")),
)


def frame(source: Source, statement: Statement) -> pd.DataFrame:
    """Read the rows of `statement`. NULL becomes NaN or NA, never 0. Raises BadInput if the database is unusable.

    `pandas.read_sql_query` would turn integers with NULL into floats, which are rounded above 2**53.
    """
    rows = fetch(source, statement)
    columns = statement.selected_columns
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return pd.DataFrame(
        {
            column.key: pd.Series(list(cells), dtype=_dtype(column))
            for column, cells in zip(columns, values, strict=True)
        }
    )


def with_facts(
    connection: Connection,
    table: pd.DataFrame,
    key: str,
    id_column: ColumnElement[int],
    facts: Sequence[ColumnElement[Any]],
) -> pd.DataFrame:
    """Replace the foreign key `key` by these facts of the other table; shared rows are read once."""
    ids = [int(number) for number in table[key].unique()]
    parts = [select(id_column, *facts).where(id_column.in_(chunk)) for chunk in list(chunks(ids)) or [[]]]
    distinct = pd.concat([frame(connection, part) for part in parts])
    joined = distinct.take(pd.Index(distinct["id"]).get_indexer(table[key])).set_axis(table.index)
    place = list(table).index(key)
    return pd.concat([table.iloc[:, :place], joined.drop(columns="id"), table.iloc[:, place + 1 :]], axis="columns")


def fetch(source: Source, statement: Statement) -> list[Any]:
    """Read all rows of `statement` at once, so that no cursor stays open."""
    with connected(source) as connection:
        return list(connection.execute(statement))


def first(source: Source, statement: Statement) -> Any:
    """The value of the only column in the first row of `statement`, or None if it has no row."""
    rows = fetch(source, statement.limit(1))
    return rows[0][0] if rows else None


@contextmanager
def connected(source: Source) -> Iterator[Connection]:
    """Yield a connection for several queries; for an engine a new one, closed at the end."""
    if isinstance(source, Connection):
        with explain_errors(source.engine.url):
            yield source
    else:
        with explain_errors(source.url), source.connect() as connection:
            yield connection


def _dtype(column: ColumnElement[Any]) -> str:
    element = column.element if isinstance(column, Label) else column
    nullable = element.nullable if isinstance(element, Column) else not isinstance(element, count)
    dtypes = next(dtypes for kind, dtypes in _DTYPES if isinstance(column.type, kind))
    return dtypes[bool(nullable)]


# The experiment, campaign and round of a run.
BELONGS_TO: tuple[Any, ...] = (
    Experiment.name.label("experiment"),
    Experiment.scale,
    Experiment.definition_sha256,
    Campaign.uid.label("campaign_uid"),
    Round.number.label("round"),
)

# For statements with an outer join to the contribution of each run. These use literals, because PostgreSQL groups by an
# expression only if its text is the same, and with parameters it would differ.
_CONTRIBUTED = Contribution.identity.is_not(None)
_OF_IDENTITY = func.substr(Contribution.identity, literal_column("1"), literal_column(str(IDENTITY_DIGITS)))
PLATFORM_KEY: ColumnElement[str] = case(
    (_CONTRIBUTED, Platform.slug + literal_column(f"'{KEY_SEPARATOR}'", Text) + _OF_IDENTITY), else_=Platform.slug
)
PLATFORM_NAME: ColumnElement[str] = case(
    (_CONTRIBUTED, Platform.name + literal_column("', contributed as '", Text) + Contribution.name), else_=Platform.name
)

BACKEND = Backend.name + " " + func.substr(Backend.config_sha256, 1, 8)

# The hardware threads that a run could use: the machine's, or fewer if the process was confined. NULL: both unreadable.
HARDWARE_THREADS = case(
    (Environment.cpus_allowed < Platform.threads_logical, Environment.cpus_allowed),
    else_=func.coalesce(Platform.threads_logical, Environment.cpus_allowed),
)


# A run with a loop time that is impossible on any machine; its other values are not trusted either.
_IMPOSSIBLE = (Run.status == "ok") & (
    (Run.loop_s > literal_column(str(LONGEST_S)))
    | (Run.loop_s * Spec.threads < Spec.iterations * literal_column(str(STEP_S)))
)
# A run with an impossible time is shown as invalid, with the reason; nothing is computed from the run.
STATUS: Label[Any] = case((_IMPOSSIBLE, literal_column("'invalid'", Text)), else_=Run.status).label("status")
REASON: Label[Any] = case(
    (_IMPOSSIBLE, literal_column("'the recorded loop time is impossible on any machine'", Text)),
    else_=Run.reason,
).label("reason")
FINAL_ACCURACY: Label[Any] = case((~_IMPOSSIBLE, Run.final_accuracy)).label("final_accuracy")


def seconds(column: InstrumentedAttribute[Any]) -> Label[Any]:
    """A time of a run; NULL if the run is emulated or the time is impossibly long."""
    possible = column <= literal_column(str(LONGEST_S))
    return case(((Run.evidence != "emulated") & possible, column)).label(column.key)


def loop_seconds() -> Label[Any]:
    """The loop time of a run; NULL as for `seconds`, and if it is impossibly short."""
    return case(((Run.evidence != "emulated") & ~_IMPOSSIBLE, Run.loop_s)).label("loop_s")


# Sums over the details of runs never overflow, because an overflow would break a page.
LARGEST_EXACT = 2**53  # the largest integer up to which all integers are exact in floating point


def total(column: InstrumentedAttribute[Any]) -> ColumnElement[int]:
    """The sum of counts, clipped to `LARGEST_EXACT`, which no real run reaches.

    Computed in floating point: SQLite fails if a sum of integers exceeds 64 bits, and PostgreSQL returns a decimal.
    """
    exact = _sum(column)
    return cast(case((exact > LARGEST_EXACT, LARGEST_EXACT), else_=exact), BigInteger)


def total_s(column: InstrumentedAttribute[Any]) -> ColumnElement[float]:
    """The sum of times; NULL if one of them is impossibly long."""
    return case((func.max(column) <= LONGEST_S, func.sum(column)))


def share(part: InstrumentedAttribute[Any], total_count: InstrumentedAttribute[Any]) -> ColumnElement[float]:
    """The sum of `part` divided by the sum of `total_count`; NULL if the divisor is 0."""
    return _sum(part) / func.nullif(_sum(total_count), 0.0)


def _sum(column: InstrumentedAttribute[Any]) -> ColumnElement[float]:
    return func.sum(cast(column, Real))


def platform_columns(*, joined: bool) -> list[Label[str]]:
    """The columns platform and platform_name, separate for each source; `joined`: one for all sources."""
    key, name = (Platform.slug, Platform.name) if joined else (PLATFORM_KEY, PLATFORM_NAME)
    return [key.label("platform"), name.label("platform_name")]


# The contribution of a run, 0 if it is local, as in the tally. No index has it: runs are found by platform or round.
SOURCE = func.coalesce(Run.contribution_id, 0).label("contribution_id")


def on_platforms(keys: Collection[str], *, joined: bool) -> ColumnElement[bool]:
    """Whether the platform has one of these keys; `joined`: one of their slugs, from any source."""
    of_slug = Platform.slug.in_({slug_of(key) for key in keys})  # this condition can use an index
    return of_slug & (Platform.slug if joined else PLATFORM_KEY).in_(keys)


def of_source(key: str, *, joined: bool) -> ColumnElement[bool]:
    """Whether a run comes from the source that the key names; `joined`: from any source."""
    if joined:
        return true()
    contribution = contribution_of(key)
    if contribution is None:
        return SOURCE.element == 0
    return SOURCE.element.in_(select(Contribution.id).where(_OF_IDENTITY.in_([contribution])))


def from_tally(*columns: Any) -> Statement:
    """Select columns of the tally and of the platforms, rounds, experiments and contributions that it counts."""
    return (
        select(*columns)
        .select_from(RoundTally)
        .join(Platform, RoundTally.platform_id == Platform.id)
        .join(Round, RoundTally.round_id == Round.id)
        .join(Experiment, Round.experiment_id == Experiment.id)
        .outerjoin(Contribution, RoundTally.contribution_id == Contribution.id)
    )


# The spec stands for all factors. `of_run` inserts the columns of the platform.
_OF_RUN = [
    Run.uid,
    *BELONGS_TO,
    HARDWARE_THREADS.label("hardware_threads"),
    Platform.tm_capability,
    Run.evidence,
    BACKEND.label("backend"),
    Run.time_domain,
    STATUS,
    REASON,
    Run.spec_id,
    Run.repeat,
    Run.ordinal,
    Run.trial_seed,
    Run.resumed,
    Run.disturbed,
    Run.others_fraction,
    Run.started_at_utc,
    seconds(Run.setup_s),
    loop_seconds(),
    seconds(Run.evaluation_s),
    seconds(Run.total_s),
    FINAL_ACCURACY,
    Run.dataset_sha256,
]


def of_run(*, joined: bool) -> list[Any]:
    """The columns of `queries.runs`; `joined` as for `platform_columns`."""
    at = 1 + len(BELONGS_TO)
    return [*_OF_RUN[:at], *platform_columns(joined=joined), *_OF_RUN[at:]]


_WITHDRAWN = select(Contribution.id).where(Contribution.withdrawn_at_utc.is_not(None))


def visible() -> ColumnElement[bool]:
    """Whether a run is visible: its contribution, if it has one, is not withdrawn.

    Every query of runs needs this, except `db check` and tests for stored runs. Most runs are not contributed, so that
    condition comes first: a search evaluates it for each run.
    """
    return Run.contribution_id.is_(None) | Run.contribution_id.not_in(_WITHDRAWN)
