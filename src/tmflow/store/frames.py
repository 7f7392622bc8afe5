"""Tables from queries: the columns of a run, which runs are shown, and their types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
from sqlalchemy import (
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
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.functions import count
from sqlalchemy.types import TypeEngine

from tmflow.platform.bounds import LONGEST_S, STEP_S
from tmflow.platform.key import AT, DIGITS, parse, slug_of
from tmflow.store.models import Backend, Campaign, Contribution, Environment, Experiment, Platform, Round, Run, Spec
from tmflow.store.url import explain_errors

Source = Engine | Connection
Statement = Select[Any]

CHUNK = 1000  # ids in one statement: far below every limit on its parameters

# Of each kind of column, the type where every row has a value and the type where NULL may occur.
_DTYPES: tuple[tuple[type[TypeEngine[Any]], tuple[str, str]], ...] = (
    (Boolean, ("bool", "boolean")),
    (Integer, ("int64", "Int64")),
    (Float, ("float64", "float64")),
    (Text, ("str", "str")),
)


def frame(source: Source, statement: Statement) -> pd.DataFrame:
    """The rows of `statement`. NULL becomes NaN or NA, never 0. Raises BadInput if the database cannot be used."""
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
    its_id: ColumnElement[int],
    facts: Sequence[ColumnElement[Any]],
) -> pd.DataFrame:
    """The table with these facts of another in place of the key to it: what many rows share is read once."""
    ids = [int(number) for number in table[key].unique()]
    chunks = [ids[first : first + CHUNK] for first in range(0, max(len(ids), 1), CHUNK)]
    known = pd.concat([frame(connection, select(its_id, *facts).where(its_id.in_(chunk))) for chunk in chunks])
    own = known.take(pd.Index(known["id"]).get_indexer(table[key])).set_axis(table.index)
    place = list(table).index(key)
    return pd.concat([table.iloc[:, :place], own.drop(columns="id"), table.iloc[:, place + 1 :]], axis="columns")


def fetch(source: Source, statement: Statement) -> list[Any]:
    """All rows of `statement`, read at once so that nothing stays open."""
    with connected(source) as connection:
        return list(connection.execute(statement))


@contextmanager
def connected(source: Source) -> Iterator[Connection]:
    """A connection to ask several questions of; of an engine a new one, which is closed at the end."""
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


# What a run belongs to.
BELONGS_TO: tuple[Any, ...] = (
    Experiment.name.label("experiment"),
    Experiment.scale,
    Experiment.definition_sha256,
    Campaign.uid.label("campaign_uid"),
    Round.number.label("round"),
)

# Of a statement that an outer join gives the contribution of each run. With literals, as PostgreSQL groups by an
# expression only where it is the same text, and parameters differ.
_CONTRIBUTED = Contribution.identity.is_not(None)
_OF_IDENTITY = func.substr(Contribution.identity, literal_column("1"), literal_column(str(DIGITS)))
PLATFORM_KEY: ColumnElement[str] = case(
    (_CONTRIBUTED, Platform.slug + literal_column(f"'{AT}'", Text) + _OF_IDENTITY), else_=Platform.slug
)
PLATFORM_NAME: ColumnElement[str] = case(
    (_CONTRIBUTED, Platform.name + literal_column("', contributed as '", Text) + Contribution.name), else_=Platform.name
)

BACKEND = Backend.name + " " + func.substr(Backend.config_sha256, 1, 8)

# Those that a run could use: the machine's, or fewer where the process was confined to some. NULL = both unreadable.
HARDWARE_THREADS = case(
    (Environment.cpus_allowed < Platform.threads_logical, Environment.cpus_allowed),
    else_=func.coalesce(Platform.threads_logical, Environment.cpus_allowed),
)


# A run of whose loop no machine can have such a time, and whatever else it says is worth no more.
_IMPOSSIBLE = (Run.status == "ok") & (
    (Run.loop_s > literal_column(str(LONGEST_S)))
    | (Run.loop_s * Spec.threads < Spec.iterations * literal_column(str(STEP_S)))
)
# A run of a time that is impossible is shown as one that is invalid, and says why: nothing is computed from it.
STATUS: Label[Any] = case((_IMPOSSIBLE, literal_column("'invalid'", Text)), else_=Run.status).label("status")
REASON: Label[Any] = case(
    (_IMPOSSIBLE, literal_column("'no machine can take the time that is recorded of its loop'", Text)), else_=Run.reason
).label("reason")
FINAL_ACCURACY: Label[Any] = case((~_IMPOSSIBLE, Run.final_accuracy)).label("final_accuracy")


def seconds(column: InstrumentedAttribute[Any]) -> Label[Any]:
    """A time of a run, NULL where the run is emulated, and where no machine can take so long."""
    possible = column <= literal_column(str(LONGEST_S))
    return case(((Run.evidence != "emulated") & possible, column)).label(column.key)


def loop_seconds() -> Label[Any]:
    """The time of the loop of a run; NULL as `seconds`, and where no machine is so fast."""
    return case(((Run.evidence != "emulated") & ~_IMPOSSIBLE, Run.loop_s)).label("loop_s")


def platform_columns(*, joined: bool) -> list[Label[str]]:
    """The columns platform and platform_name, each source by itself; `joined`: all sources of a platform alike."""
    key, name = (Platform.slug, Platform.name) if joined else (PLATFORM_KEY, PLATFORM_NAME)
    return [key.label("platform"), name.label("platform_name")]


def on_platforms(keys: Sequence[str], *, joined: bool) -> ColumnElement[bool]:
    """Whether the platform is one of these, by their keys; `joined`: by their slugs, whatever the source."""
    of_slug = Platform.slug.in_({slug_of(key) for key in keys})  # which an index has
    return of_slug & (Platform.slug if joined else PLATFORM_KEY).in_(keys)


def of_source(key: str, *, joined: bool) -> ColumnElement[bool]:
    """Of a run: whether its source is the one that the key names; joined: whatever the source.

    An expression, which no index has: a platform or a round finds the runs.
    """
    if joined:
        return true()
    contribution = parse(key).contribution
    source = func.coalesce(Run.contribution_id, 0)
    if contribution is None:
        return source == 0
    return source.in_(select(Contribution.id).where(_OF_IDENTITY.in_([contribution])))


# Its spec stands for all factors. The platform comes after the first of these: `of_run`.
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
    Run.ordinal,
    Run.trial_seed,
    Run.resumed,
    Run.disturbed,
    Run.started_at_utc,
    seconds(Run.setup_s),
    loop_seconds(),
    seconds(Run.evaluation_s),
    seconds(Run.total_s),
    FINAL_ACCURACY,
    Run.dataset_sha256,
]


def of_run(*, joined: bool) -> list[Any]:
    """The columns of `queries.runs`; joined: as for `platform_columns`."""
    at = 1 + len(BELONGS_TO)
    return [*_OF_RUN[:at], *platform_columns(joined=joined), *_OF_RUN[at:]]


_WITHDRAWN = select(Contribution.id).where(Contribution.withdrawn_at_utc.is_not(None))


def visible() -> ColumnElement[bool]:
    """Of a run; for every question that reads one, but those of `db check` and of what is stored at all.

    Most runs are not contributed, which is said first: a search asks it of each.
    """
    return Run.contribution_id.is_(None) | Run.contribution_id.not_in(_WITHDRAWN)
