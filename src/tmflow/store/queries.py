"""Queries of the database that return pandas data frames. All functions take an engine or a connection.

Columns have the names of the table. Columns of other tables: `experiment` (the name), `platform` (platform and source:
`tmflow.platform.key`), `round` (the number), `campaign_uid`, `hardware_threads` (those that the run could use),
`backend` (the emulator or simulator: its name and 8 hex digits of the hash of its configuration). Timestamps are ISO
8601 text in UTC. Kinds of evidence are never summed. An emulated run has no times: its seconds are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import pandas as pd
from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Subquery,
    and_,
    case,
    exists,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.orm import InstrumentedAttribute

from tmflow.analysis.experiment_records import Loaded
from tmflow.base.canonical_json import sha256_of
from tmflow.base.json_objects import parse_object
from tmflow.platform.bounds import LONGEST_S
from tmflow.spec import contention
from tmflow.store import software_labels, spec_factors
from tmflow.store.frames import (
    STATUS,
    Source,
    Statement,
    connected,
    fetch,
    frame,
    loop_seconds,
    of_run,
    on_platforms,
    platform_columns,
    seconds,
    visible,
    with_facts,
)
from tmflow.store.models import (
    AbortReason,
    Backend,
    Base,
    Campaign,
    Contribution,
    Counters,
    CurvePoint,
    Environment,
    Experiment,
    FailedPublications,
    LostUpdate,
    Platform,
    Retries,
    Round,
    RoundTally,
    Run,
    RunAbort,
    RunFile,
    Software,
    Spec,
    Staleness,
    TakenBlocks,
    VariableRead,
)
from tmflow.store.totals import share, total, total_s

Value = str | int | float


class Only(TypedDict, total=False):
    """A filter of runs; an absent key does not restrict, unless the key says otherwise."""

    experiment: str
    experiments: Sequence[str]
    """Runs of these experiments, by name."""
    any_of: Sequence[tuple[str, Mapping[str, Value]]]
    """Runs of one of these experiments, by name, with these values of factors."""
    scale: str
    uids: Sequence[str]
    """Only these runs."""
    platforms: Sequence[str]
    """Runs on these platforms, by key (`tmflow.platform.key`)."""
    evidences: Sequence[str]
    factors: Mapping[str, Sequence[Value]]
    """For each factor, the allowed values."""
    status: Sequence[str] | None
    """Runs with one of these; ("ok",) if the key is absent, any status if it is None."""
    all_definitions: bool
    """Also runs of definitions of an experiment other than the newest per platform and source; default False."""
    joined: bool
    """Treat all sources of a platform as one; default False."""


def runs(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """One row per run, oldest first: experiment to round, all factors, times in seconds, accuracy as a fraction.

    `software` is a label of the software that measured the run; different software has different labels.
    """
    with connected(source) as connection:
        columns = [*of_run(joined=only.get("joined", False)), Run.software_id]
        table = frame(connection, _of_runs(columns, only).order_by(Run.started_at_utc, Run.id))
        table = with_facts(connection, table, "spec_id", Spec.__table__.columns["id"], spec_factors.FACTORS)
        labels = software_labels.of_runs(connection, table[["software_id", "campaign_uid"]])
        return table.assign(software=labels).drop(columns="software_id")


def origins(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, env_sha256, software_sha256: the environment and the software of each run.

    The environment of a published run is NA. `platform_queries` returns the facts for the hashes.
    """
    return frame(source, statement_of_origins(**only))


def statement_of_origins(**only: Unpack[Only]) -> Statement:
    """The statement of `origins`."""
    statement = _of_runs([Run.uid, Environment.env_sha256, Software.software_sha256], only)
    return statement.join(Software, Run.software_id == Software.id).order_by(Run.id)


def curves(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, iteration, elapsed_s, accuracy (a fraction): the accuracy curve of each run that measured one.

    Points after the last step, and points with an impossible time, are left out.
    """
    columns = [Run.uid, CurvePoint.iteration, seconds(CurvePoint.elapsed_s), CurvePoint.accuracy]
    possible = (CurvePoint.iteration <= Spec.iterations, CurvePoint.elapsed_s <= LONGEST_S)
    joined = _of_runs(columns, only).join(CurvePoint).where(*possible)
    return frame(source, joined.order_by(Run.id, CurvePoint.iteration))


def staleness(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, staleness, steps: how many steps of a run saw this many updates by other workers.

    Only for runs that measured it. A staleness above the steps of the run is impossible; it is clipped to the steps.
    """
    behind = case((Staleness.staleness > Spec.iterations, Spec.iterations), else_=Staleness.staleness)
    columns = [Run.uid, behind.label("staleness"), total(Staleness.steps).label("steps")]
    grouped = _of_runs(columns, only).join(Staleness).group_by(Run.id, Run.uid, behind)
    return frame(source, grouped.order_by(Run.id, behind)).astype({"staleness": "int64", "steps": "int64"})


def transactions(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, commits, fallbacks, attempts: totals over workers and variables of each run that counted commits.

    An unknown count is NA.
    """
    columns = [Run.uid, *(total(n).label(n.key) for n in (Counters.commits, Counters.fallbacks, Counters.attempts))]
    grouped = _of_runs(columns, only).join(Counters).where(Counters.commits.is_not(None)).group_by(Run.id, Run.uid)
    return frame(source, grouped.order_by(Run.id))


def full_measures(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """Lost updates, torn reads and time under locks of each run with full measures, one row each.

    uid; lost_fraction of all element updates; torn_fraction of all reads of variables; lock_waited_fraction and
    lock_held_fraction of the time of all workers together. NaN if not measured; the fractions of time are NaN for
    emulated runs.
    """
    time = Spec.threads * loop_seconds().element
    columns = [
        Run.uid,
        _of_run(share(LostUpdate.lost, LostUpdate.expected), LostUpdate).label("lost_fraction"),
        _of_run(share(VariableRead.torn, VariableRead.reads), VariableRead).label("torn_fraction"),
        (_of_run(total_s(Counters.lock_waited_s), Counters) / time).label("lock_waited_fraction"),
        (_of_run(total_s(Counters.lock_held_s), Counters) / time).label("lock_held_fraction"),
    ]
    return frame(source, _of_runs(columns, only).where(Spec.measures == "full").order_by(Run.id))


def contention_met(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, kind, number, n: how often a run met contention of a kind exactly `number` times.

    kind: a key of `contention.KINDS`, which defines what `n` counts. Older runs counted every kind in one list; for
    these the strategy determines the kind.
    """
    tables = []
    for kind, (number, counted) in _CONTENTION.items():
        columns = [Run.id, Run.uid, Spec.strategy, number.label("number"), total(counted).label("n")]
        grouped = _of_runs(columns, only).join(number.class_).group_by(Run.id, Run.uid, Spec.strategy, number)
        table = frame(source, grouped.order_by(Run.id, number)).astype({"n": "int64"})
        kinds = table["strategy"].map(contention.kind_of_retries) if kind == "retries" else kind
        tables.append(table.assign(kind=kinds))
    histograms = pd.concat(tables, ignore_index=True).sort_values(["id", "kind", "number"], ignore_index=True)
    return histograms[["uid", "kind", "number", "n"]]


_CONTENTION: dict[contention.Kind, tuple[Any, Any]] = {
    "retries": (Retries.retries, Retries.sections),
    "failed_publications": (FailedPublications.failed_publications, FailedPublications.updates),
    "taken_blocks": (TakenBlocks.taken_blocks, TakenBlocks.updates),
}


def aborts(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, mechanism, family, raw_code, n: how often the transactions of a run aborted, by cause."""
    keys = [AbortReason.mechanism, AbortReason.family, AbortReason.raw_code]
    joined = _of_runs([Run.uid, *keys, total(RunAbort.n).label("n")], only).join(RunAbort).join(AbortReason)
    return frame(source, joined.group_by(Run.id, Run.uid, *keys).order_by(Run.id, *keys)).astype({"n": "int64"})


def _of_any_status(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    any_status = only.copy()
    any_status["status"] = None
    return runs(source, **any_status)


# The function that reads each table of `Records`.
TABLES: dict[str, Callable[..., pd.DataFrame]] = {
    "runs": _of_any_status,
    "curves": curves,
    "staleness": staleness,
    "transactions": transactions,
    "aborts": aborts,
    "full": full_measures,
}


def records(source: Source, **only: Unpack[Only]) -> Loaded:
    """Read all tables that figures need, including runs without a result."""
    return Loaded(**{name: read(source, **only) for name, read in TABLES.items()})


def counts(source: Source, *, joined: bool = False) -> pd.DataFrame:
    """Count the runs of all definitions and statuses; `joined`: treat all sources of a platform as one.

    experiment, scale, definition_sha256, platform, platform_name, evidence, status, n_runs, n_rounds, newest_run_utc.
    """
    keys = [
        Experiment.name.label("experiment"),
        Experiment.scale,
        Experiment.definition_sha256,
        *platform_columns(joined=joined),
        RoundTally.evidence,
        RoundTally.status,
    ]
    counted = [
        total(RoundTally.n_runs).label("n_runs"),
        func.count(RoundTally.round_id.distinct()).label("n_rounds"),
        func.max(RoundTally.newest_run_at_utc).label("newest_run_utc"),
    ]
    statement = (
        select(*keys, *counted)
        .select_from(RoundTally)
        .join(Platform, RoundTally.platform_id == Platform.id)
        .outerjoin(Contribution, RoundTally.contribution_id == Contribution.id)
        .join(Round, RoundTally.round_id == Round.id)
        .join(Experiment, Round.experiment_id == Experiment.id)
    )
    return frame(source, statement.group_by(*keys).order_by(*keys)).astype({"n_runs": "int64"})


def rounds(source: Source) -> pd.DataFrame:
    """experiment, definition_sha256, round, platform_sha256 of the rounds with local runs, in any campaign.

    Contributed runs do not count: a study on this machine neither makes nor misses them.
    """
    columns = [Experiment.name.label("experiment"), Experiment.definition_sha256, Round.number.label("round")]
    statement = (
        select(*columns, Platform.facts_sha256.label("platform_sha256"))
        .select_from(Round)
        .join(Experiment, Round.experiment_id == Experiment.id)
        .join(Campaign, Round.campaign_id == Campaign.id)
        .join(Platform, Campaign.platform_id == Platform.id)
        .where(exists().where(Run.round_id == Round.id, Run.contribution_id.is_(None)))
    )
    return frame(source, statement.order_by(Round.id))


def definition(
    source: Source, experiment: str, scale: str, platforms: Sequence[str], *, joined: bool = False
) -> dict[str, Any] | None:
    """The definition of an experiment that was run last on these platforms; None if it was never run."""
    definitions = select(Experiment.definition_json).select_from(RoundTally).join(Round).join(Experiment)
    definitions = definitions.join(Platform, RoundTally.platform_id == Platform.id)
    definitions = definitions.outerjoin(Contribution, RoundTally.contribution_id == Contribution.id)
    newest_first = (RoundTally.newest_run_at_utc.desc(), Experiment.id.desc())
    matches = (Experiment.name == experiment, Experiment.scale == scale, on_platforms(platforms, joined=joined))
    rows = fetch(source, definitions.where(*matches).order_by(*newest_first).limit(1))
    return parse_object(rows[0][0], f"the definition of experiment {experiment}") if rows else None


def revision(source: Source) -> str:
    """The revision of the data, 8 hex digits; it does not depend on the order of ingest.

    This is a hash over the stored run files and the withdrawn contributions.
    """
    files = select(RunFile.sha256).order_by(RunFile.sha256)
    withdrawn = select(Contribution.identity).where(Contribution.withdrawn_at_utc.is_not(None))
    with connected(source) as connection:
        held = [*connection.scalars(files), *connection.scalars(withdrawn.order_by(Contribution.identity))]
    return sha256_of(held)[:8]


def _of_runs(columns: Sequence[Any], only: Only) -> Statement:
    """Select columns of the runs that match `only`, joined with every table that has one row per run.

    The tally gives the rounds that have such runs, so that no other rounds are read.
    """
    statement = (
        select(*columns)
        .select_from(RoundTally)
        .join(Run, and_(Run.round_id == RoundTally.round_id, visible(), *_matches_tally()))
        .join(Spec, Run.spec_id == Spec.id)
        .join(Platform, RoundTally.platform_id == Platform.id)
        .outerjoin(Contribution, RoundTally.contribution_id == Contribution.id)
        .outerjoin(Backend, Run.backend_id == Backend.id)
        .outerjoin(Environment, Run.environment_id == Environment.id)
        .join(Round, RoundTally.round_id == Round.id)
        .join(Campaign, Round.campaign_id == Campaign.id)
        .join(Experiment, Round.experiment_id == Experiment.id)
    )
    equal: dict[str, InstrumentedAttribute[str]] = {"experiment": Experiment.name, "scale": Experiment.scale}
    named = [equal[name] == value for name, value in only.items() if name in equal]
    if (experiments := only.get("experiments")) is not None:
        named.append(Experiment.name.in_(experiments))
    if (settings := only.get("any_of")) is not None:
        named.append(Experiment.name.in_({name for name, _ in settings}))
        statement = statement.where(or_(*(_is_setting(name, factors) for name, factors in settings)))
    if (platforms := only.get("platforms")) is not None:
        named.append(on_platforms(platforms, joined=only.get("joined", False)))
    statement = statement.where(*named)
    allowed = {
        RoundTally.evidence: only.get("evidences"),
        Run.uid: only.get("uids"),
    }
    statement = statement.where(*(column.in_(values) for column, values in allowed.items() if values is not None))
    for factor, values in only.get("factors", {}).items():
        statement = statement.where(spec_factors.factor(factor).in_(values))
    status = only.get("status", ("ok",))
    if status is not None:
        statement = statement.where(RoundTally.status.in_(status), STATUS.element.in_(status))
    if not only.get("all_definitions", False):
        ranked = _ranked(*named)
        newest = select(ranked.c.id, ranked.c.platform_id, ranked.c.contribution_id).where(ranked.c.age == 1)
        of_source = tuple_(Experiment.id, RoundTally.platform_id, RoundTally.contribution_id)
        statement = statement.where(of_source.in_(newest))
    return statement


def _is_setting(experiment: str, factors: Mapping[str, Value]) -> ColumnElement[bool]:
    same = (spec_factors.factor(factor) == value for factor, value in factors.items())
    return and_(Experiment.name == experiment, *same)


def _matches_tally() -> list[ColumnElement[bool]]:
    """The join condition between a run and its row of the tally.

    Adding 0 or "" prevents SQLite from using the indexes by platform or status, which would select far too many runs.
    """
    return [
        Run.platform_id + 0 == RoundTally.platform_id,
        func.coalesce(Run.contribution_id, 0) == RoundTally.contribution_id,
        Run.evidence + "" == RoundTally.evidence,
        Run.status + "" == RoundTally.status,
    ]


def _ranked(*named: ColumnElement[bool]) -> Subquery:
    """Rank the definitions of each experiment and scale by age; 1 is the definition that was run last.

    Ranks are separate for each platform and source, even if sources are joined: a later run of another source, real or
    claimed, does not hide local runs. `named` restricts the experiments and platforms.
    """
    newest_first = (func.max(RoundTally.newest_run_at_utc).desc(), Experiment.id.desc())
    group = (Experiment.name, Experiment.scale, RoundTally.platform_id, RoundTally.contribution_id)
    age = func.row_number().over(partition_by=group, order_by=newest_first)
    ran = select(Experiment.id, RoundTally.platform_id, RoundTally.contribution_id, age.label("age"))
    ran = ran.select_from(RoundTally).join(Platform, RoundTally.platform_id == Platform.id).join(Round).join(Experiment)
    ran = ran.outerjoin(Contribution, RoundTally.contribution_id == Contribution.id)
    return ran.where(*named).group_by(*group, Experiment.id).subquery()


def _of_run(value: ColumnElement[Any], details: type[Base]) -> ScalarSelect[Any]:
    """Aggregate the details of each run; NULL for a run without details."""
    return select(value).where(details.__table__.columns["run_id"] == Run.id).scalar_subquery()
