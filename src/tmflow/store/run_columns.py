"""The columns of a table of runs, as `queries.runs` gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Label, Text, case, func, literal_column, select, true
from sqlalchemy.orm import InstrumentedAttribute

from tmflow.platform_key import AT, DIGITS, parse, slug_of
from tmflow.spec import TrialSpec
from tmflow.store.models import (
    Backend,
    Campaign,
    Contribution,
    Environment,
    Experiment,
    Platform,
    Round,
    Run,
    Spec,
)

FACTORS = [Spec.__table__.columns[name] for name in TrialSpec.model_fields]

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


def seconds(column: InstrumentedAttribute[Any]) -> Label[Any]:
    """A time of a run, NULL where the run is emulated."""
    return case((Run.evidence != "emulated", column)).label(column.key)


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
    Run.status,
    Run.reason,
    Run.spec_id,
    Run.ordinal,
    Run.trial_seed,
    Run.resumed,
    Run.disturbed,
    Run.started_at_utc,
    *map(seconds, (Run.setup_s, Run.loop_s, Run.evaluation_s, Run.total_s)),
    Run.final_accuracy,
    Run.dataset_sha256,
]


def of_run(*, joined: bool) -> list[Any]:
    """The columns of `queries.runs`; joined: as for `platform_columns`."""
    at = 1 + len(BELONGS_TO)
    return [*_OF_RUN[:at], *platform_columns(joined=joined), *_OF_RUN[at:]]
