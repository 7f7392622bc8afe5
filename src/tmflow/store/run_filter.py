"""The runs that a query reads: one filter, and two ways to find the runs that match it.

A table of runs is read by round: the tally lists the rounds that have such runs, so no other rounds are read. A search
is read by spec: on SQLite it scans the index `ix_run_search` for each spec that matches. The index covers all columns
that a search uses, so only the runs of a page are read from the table. SQLite has no statistics, so the statements
choose its indexes: `without_index` hides a column from the planner.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Label,
    Subquery,
    and_,
    case,
    func,
    join,
    literal,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute

from tmflow.analysis.versions import Versions
from tmflow.platform.facts import slug_of
from tmflow.store import factor_columns
from tmflow.store.frames import SOURCE, STATUS, Statement, from_tally, of_source, on_platforms, visible
from tmflow.store.models import (
    Backend,
    Campaign,
    Contribution,
    Environment,
    Experiment,
    Platform,
    Round,
    RoundTally,
    Run,
    Software,
    Spec,
)

Value = str | int | float

WITHOUT_RESULT = ("failed", "timeout", "invalid", "unsupported")
DEFINITION = 8  # hex digits that name a definition
COMMIT = 10  # hex digits that name a commit

# The name of a software version: that of tmflow, with its commit and whether that had uncommitted changes.
SOFTWARE_NAME: Label[str] = (
    literal("tmflow ")
    + Software.tmflow
    + func.coalesce(literal(" at ") + func.substr(Software.git_commit, 1, COMMIT), "")
    + case((Software.git_dirty.is_(True), " with uncommitted changes"), else_="")
).label("software_name")


@dataclass(frozen=True)
class RunFilter:
    """A filter of runs: a run matches if it has one of the values of each field; None does not restrict."""

    experiments: Collection[str] | None = None
    scales: Collection[str] | None = None
    definitions: Collection[str] | None = None
    """The first 8 hex digits of the hashes."""
    platforms: Collection[str] | None = None
    """The keys of the platforms (`tmflow.platform.facts`)."""
    evidences: Collection[str] | None = None
    statuses: Collection[str] | None = None
    factors: Mapping[str, Collection[Value]] = field(default_factory=dict)
    """For each factor, the allowed values; a run to which a factor does not apply never matches."""
    settings: Collection[tuple[str, Mapping[str, Value]]] | None = None
    """Experiments, each with values of factors: a run matches if it is of one of them and has its values."""
    uids: Collection[str] | None = None
    campaigns: Collection[str] | None = None
    """The uids of campaigns."""
    software: Collection[str] | None = None
    """The names of software versions (`SOFTWARE_NAME`)."""
    since: str | None = None
    """An ISO 8601 date or time in UTC: runs that started then or later."""
    until: str | None = None
    """Runs that started before this date or time."""
    text: str = ""
    """A part of the reason (ignoring case), a uid, or the first 4 or more characters of a uid."""
    newest_definitions: bool = False
    """Only runs of the newest definition of each experiment, for each platform and source."""
    joined: bool = False
    """Treat all sources of a platform as one."""
    versions: Versions = "all"
    """The software versions of `queries.runs` and `queries.records`; other queries return the runs of all versions."""

    @property
    def of_samples(self) -> RunFilter:
        """The same filter without the conditions that divide a sample (`analysis.versions.SAMPLE`).

        Campaigns, software and dates stay: the version of a sample is then that of the runs which they select.
        """
        names = self.experiments
        if self.settings is not None:
            of_settings = {name for name, _ in self.settings}
            names = tuple(of_settings if names is None else of_settings.intersection(names))
        return replace(self, experiments=names, statuses=None, factors={}, settings=None, uids=None, text="")


RESULTS = RunFilter(statuses=("ok",), newest_definitions=True, versions="one")
"""The runs that figures and tables show, unless they ask for others."""


def without_index(column: InstrumentedAttribute[Any]) -> ColumnElement[Any]:
    """The column as an expression, so that a planner without statistics does not use its index."""
    return func.coalesce(column, column)


def select_by_round(columns: Sequence[Any], only: RunFilter) -> Statement:
    """Select columns of the matching runs and of every table that has one row per run.

    A run with an impossible time has the status `invalid` here.
    """
    matches_tally = (
        Run.round_id == RoundTally.round_id,
        without_index(Run.platform_id) == RoundTally.platform_id,
        SOURCE.element == RoundTally.contribution_id,
        without_index(Run.evidence) == RoundTally.evidence,
        without_index(Run.status) == RoundTally.status,
    )
    statement = (
        select(*columns)
        .select_from(RoundTally)
        .join(Run, and_(visible(), *matches_tally))
        .join(Spec, Run.spec_id == Spec.id)
        .join(Platform, RoundTally.platform_id == Platform.id)
        .outerjoin(Contribution, RoundTally.contribution_id == Contribution.id)
        .outerjoin(Backend, Run.backend_id == Backend.id)
        .outerjoin(Environment, Run.environment_id == Environment.id)
        .join(Round, RoundTally.round_id == Round.id)
        .join(Campaign, Round.campaign_id == Campaign.id)
        .join(Experiment, Round.experiment_id == Experiment.id)
    )
    of_round = _of_experiment(only) + _of_campaign(only)
    if only.platforms is not None:
        of_round.append(on_platforms(only.platforms, joined=only.joined))
    of_run = _among((RoundTally.evidence, only.evidences), (RoundTally.status, only.statuses))
    of_run += _among((STATUS.element, only.statuses), (Run.uid, only.uids))
    of_run += [*_of_software(only), *_within(Run.started_at_utc, only)]
    if only.settings is not None:
        of_run.append(or_(*(and_(Experiment.name == name, *_equal(factors)) for name, factors in only.settings)))
    if only.newest_definitions:
        ranked = _ranked(*of_round, *_with_runs(only))
        newest = select(ranked.c.id, ranked.c.platform_id, ranked.c.contribution_id).where(ranked.c.age == 1)
        of_run.append(tuple_(Experiment.id, RoundTally.platform_id, RoundTally.contribution_id).in_(newest))
    if only.text:
        of_run.append(Run.id.in_(_with_text(only.text)))
    return statement.where(*of_round, *of_run, *_of_factors(only))


def select_by_spec(columns: Sequence[Any], only: RunFilter) -> Statement:
    """Select columns of the specs and runs that match, from the covering index of a search.

    A text is searched first, among the reasons of runs without a result (no others have one) and among the prefixes of
    uids; the other conditions then apply to these runs only. The status of a run is the recorded one.
    """
    if only.text:
        statement = select(*columns).select_from(join(Run, Spec, without_index(Run.spec_id) == Spec.id))
        statement = statement.where(Run.id.in_(_with_text(only.text)))
    else:
        statement = select(*columns).select_from(join(Spec, Run, Run.spec_id == without_index(Spec.id)))
    statement = statement.where(
        *_of_factors(only),
        *_among(
            (without_index(Run.status), only.statuses),
            (without_index(Run.evidence), only.evidences),
            (without_index(Run.uid), only.uids),
        ),
        *_of_software(only),
        *_within(without_index(Run.started_at_utc), only),
    )
    if only.platforms is not None:
        statement = statement.where(or_(*(_is_on(key, joined=only.joined) for key in only.platforms)))
    if of_round := _of_experiment(only) + _of_campaign(only):
        rounds = select(Round.id).join(Experiment).where(*of_round)
        statement = statement.where(without_index(Run.round_id).in_(rounds))
    if only.settings is not None or only.newest_definitions:
        statement = statement.where(Run.id.in_(select_by_round([Run.id], replace(only, text=""))))
    return statement.where(visible())


def _among(*allowed: tuple[Any, Collection[Any] | None]) -> list[ColumnElement[bool]]:
    return [column.in_(values) for column, values in allowed if values is not None]


def _of_experiment(only: RunFilter) -> list[ColumnElement[bool]]:
    return _among(
        (Experiment.name, only.experiments),
        (Experiment.name, only.settings if only.settings is None else {name for name, _ in only.settings}),
        (Experiment.scale, only.scales),
        (func.substr(Experiment.definition_sha256, 1, DEFINITION), only.definitions),
    )


def _of_campaign(only: RunFilter) -> list[ColumnElement[bool]]:
    if only.campaigns is None:
        return []
    return [Round.campaign_id.in_(select(Campaign.id).where(Campaign.uid.in_(only.campaigns)))]


def _of_software(only: RunFilter) -> list[ColumnElement[bool]]:
    if only.software is None:
        return []
    return [Run.software_id.in_(select(Software.id).where(SOFTWARE_NAME.element.in_(only.software)))]


def _within(time: ColumnElement[str] | InstrumentedAttribute[str], only: RunFilter) -> list[ColumnElement[bool]]:
    """Whether a time lies between the dates; times are texts that sort chronologically."""
    since = [] if only.since is None else [time >= only.since]
    return since + ([] if only.until is None else [time < only.until])


def _with_runs(only: RunFilter) -> list[ColumnElement[bool]]:
    """Whether a round of the tally has runs of the software and the dates."""
    of_run = [*_of_software(only), *_within(Run.started_at_utc, only)]
    return [RoundTally.round_id.in_(select(Run.round_id).where(*of_run))] if of_run else []


def _of_factors(only: RunFilter) -> list[ColumnElement[bool]]:
    return [factor_columns.factor(factor).in_(values) for factor, values in only.factors.items()]


def _equal(factors: Mapping[str, Value]) -> Iterable[ColumnElement[bool]]:
    return (factor_columns.factor(factor) == value for factor, value in factors.items())


def _is_on(platform: str, *, joined: bool) -> ColumnElement[bool]:
    """Whether a run is of the platform with this key."""
    of_slug = select(Platform.id).where(Platform.slug == slug_of(platform))
    return without_index(Run.platform_id).in_(of_slug) & of_source(platform, joined=joined)


def _ranked(*conditions: ColumnElement[bool]) -> Subquery:
    """Rank the definitions of each experiment and scale by age; 1 is the definition that was run last.

    Ranks are separate for each platform and source, even if sources are joined: a later run of another source, real or
    claimed, does not hide local runs. `conditions` restrict the experiments and platforms.
    """
    newest_first = (func.max(RoundTally.newest_run_at_utc).desc(), Experiment.id.desc())
    group = (Experiment.name, Experiment.scale, RoundTally.platform_id, RoundTally.contribution_id)
    age = func.row_number().over(partition_by=group, order_by=newest_first)
    ran = from_tally(Experiment.id, RoundTally.platform_id, RoundTally.contribution_id, age.label("age"))
    return ran.where(*conditions).group_by(*group, Experiment.id).subquery()


def _with_text(text: str) -> CompoundSelect[Any]:
    """The ids of the runs with the text in the reason, as uid, or as prefix of the uid."""
    of_reason = select(Run.id).where(Run.status.in_(WITHOUT_RESULT), Run.reason.icontains(text, autoescape=True))
    uid = text.lower()
    of_uid: ColumnElement[bool] = Run.uid == text
    if re.fullmatch("[0-9a-f][0-9a-f-]{3,}", uid):  # characters of a uid; "g" sorts after them in any collation
        of_uid |= (Run.uid >= uid) & (Run.uid < uid + "g") & Run.uid.startswith(uid)
    return union_all(of_reason, select(Run.id).where(of_uid))
