"""Questions to the database, answered as tables of pandas. Pure functions of an engine or a connection.

A column is named as in the tables; of other tables: `experiment` (its name), `platform` (whose runs of which platform:
`tmflow.platform.key`), `round` (the number), `campaign_uid`, `hardware_threads` (those that the run could use),
`backend` (what stood in for hardware: its name and 8 hex digits of the hash of its numbers). Times are ISO 8601 text in
UTC. Evidence kinds come side by side, never summed, and an emulated run has no seconds: it shows no time, here or
anywhere after.
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
    """Which runs: all where a key is absent."""

    experiment: str
    experiments: Sequence[str]
    """Of these, by their names."""
    any_of: Sequence[tuple[str, Mapping[str, Value]]]
    """Of one of these experiments, with the values of factors beside its name."""
    scale: str
    uids: Sequence[str]
    """These alone."""
    platforms: Sequence[str]
    """On these, by their keys (`tmflow.platform.key`)."""
    evidences: Sequence[str]
    factors: Mapping[str, Sequence[Value]]
    """Of each factor named one of these values."""
    status: Sequence[str] | None
    """Of these; ("ok",) where the key is absent, all where it is None."""
    all_definitions: bool
    """Also runs of other definitions of an experiment than the newest of their source there; False where absent."""
    joined: bool
    """The sources of a platform as one; False where absent."""


def runs(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """One row for each run, oldest first: what it belongs to, all factors, times in seconds, accuracy as a fraction.

    And `software`: what measured it, in words that are the same for the same software alone.
    """
    with connected(source) as connection:
        columns = [*of_run(joined=only.get("joined", False)), Run.software_id]
        table = frame(connection, _of_runs(columns, only).order_by(Run.started_at_utc, Run.id))
        table = with_facts(connection, table, "spec_id", Spec.__table__.columns["id"], spec_factors.FACTORS)
        words = software_labels.of_runs(connection, table[["software_id", "campaign_uid"]])
        return table.assign(software=words).drop(columns="software_id")


def origins(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, env_sha256, software_sha256: under which settings each run ran, and which software measured it.

    The settings of a published run are NA. `platform_queries` tells what the hashes stand for.
    """
    return frame(source, statement_of_origins(**only))


def statement_of_origins(**only: Unpack[Only]) -> Statement:
    """What `origins` asks."""
    statement = _of_runs([Run.uid, Environment.env_sha256, Software.software_sha256], only)
    return statement.join(Software, Run.software_id == Software.id).order_by(Run.id)


def curves(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, iteration, elapsed_s, accuracy (a fraction): the points on the way of each run that measured them.

    But for points after the last step, and those of times that no machine takes.
    """
    columns = [Run.uid, CurvePoint.iteration, seconds(CurvePoint.elapsed_s), CurvePoint.accuracy]
    possible = (CurvePoint.iteration <= Spec.iterations, CurvePoint.elapsed_s <= LONGEST_S)
    joined = _of_runs(columns, only).join(CurvePoint).where(*possible)
    return frame(source, joined.order_by(Run.id, CurvePoint.iteration))


def staleness(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, staleness, steps: of each run that measured it, how many steps saw that many updates by others.

    A staleness beyond the steps of the run, which is impossible, counts as so many.
    """
    behind = case((Staleness.staleness > Spec.iterations, Spec.iterations), else_=Staleness.staleness)
    columns = [Run.uid, behind.label("staleness"), total(Staleness.steps).label("steps")]
    grouped = _of_runs(columns, only).join(Staleness).group_by(Run.id, Run.uid, behind)
    return frame(source, grouped.order_by(Run.id, behind)).astype({"staleness": "int64", "steps": "int64"})


def transactions(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, commits, fallbacks, attempts of all workers and variables, of each run that counted commits.

    A count that could not be known is NA.
    """
    columns = [Run.uid, *(total(n).label(n.key) for n in (Counters.commits, Counters.fallbacks, Counters.attempts))]
    grouped = _of_runs(columns, only).join(Counters).where(Counters.commits.is_not(None)).group_by(Run.id, Run.uid)
    return frame(source, grouped.order_by(Run.id))


def full_measures(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """What becomes of updates, reads and time in each run that was measured in full: one row each.

    uid; lost_fraction, of all updates of elements; torn_fraction, of all reads of variables; lock_waited_fraction and
    lock_held_fraction, of the time of all workers together. NaN where it was not measured; an emulated run shows no
    time, nor a share of it.
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
    """uid, kind, number, n: of each run, how often contention of a kind was met with exactly `number` times.

    kind: a key of `contention.KINDS`, which says what `n` counts. Older runs counted every kind in one list: theirs is
    decided by their strategy.
    """
    found = []
    for kind, (number, counted) in _CONTENTION.items():
        columns = [Run.id, Run.uid, Spec.strategy, number.label("number"), total(counted).label("n")]
        grouped = _of_runs(columns, only).join(number.class_).group_by(Run.id, Run.uid, Spec.strategy, number)
        table = frame(source, grouped.order_by(Run.id, number)).astype({"n": "int64"})
        of_retries = table["strategy"].map(contention.kind_of_retries) if kind == "retries" else kind
        found.append(table.assign(kind=of_retries))
    together = pd.concat(found, ignore_index=True).sort_values(["id", "kind", "number"], ignore_index=True)
    return together[["uid", "kind", "number", "n"]]


_CONTENTION: dict[contention.Kind, tuple[Any, Any]] = {
    "retries": (Retries.retries, Retries.sections),
    "failed_publications": (FailedPublications.failed_publications, FailedPublications.updates),
    "taken_blocks": (TakenBlocks.taken_blocks, TakenBlocks.updates),
}


def aborts(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, mechanism, family, raw_code, n: how often the transactions of each run aborted, and how."""
    keys = [AbortReason.mechanism, AbortReason.family, AbortReason.raw_code]
    joined = _of_runs([Run.uid, *keys, total(RunAbort.n).label("n")], only).join(RunAbort).join(AbortReason)
    return frame(source, joined.group_by(Run.id, Run.uid, *keys).order_by(Run.id, *keys)).astype({"n": "int64"})


def _of_any_status(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    every = only.copy()
    every["status"] = None
    return runs(source, **every)


# What reads each table of `Records`.
TABLES: dict[str, Callable[..., pd.DataFrame]] = {
    "runs": _of_any_status,
    "curves": curves,
    "staleness": staleness,
    "transactions": transactions,
    "aborts": aborts,
    "full": full_measures,
}


def records(source: Source, **only: Unpack[Only]) -> Loaded:
    """All that figures and tables of the runs are made from, those without a result among them."""
    return Loaded(**{name: read(source, **only) for name, read in TABLES.items()})


def counts(source: Source, *, joined: bool = False) -> pd.DataFrame:
    """How much the database holds, of all definitions, whatever its status; joined: the sources of a platform as one.

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
    """experiment, definition_sha256, round, platform_sha256: those that the database holds runs of, of any campaign.

    But for runs that are contributed: no study of this machine's own makes or misses them.
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
    """The newest definition of an experiment on these platforms, as its runs were made by; None where there is none."""
    its = select(Experiment.definition_json).select_from(RoundTally).join(Round).join(Experiment)
    its = its.join(Platform, RoundTally.platform_id == Platform.id)
    its = its.outerjoin(Contribution, RoundTally.contribution_id == Contribution.id)
    newest_first = (RoundTally.newest_run_at_utc.desc(), Experiment.id.desc())
    of = (Experiment.name == experiment, Experiment.scale == scale, on_platforms(platforms, joined=joined))
    named = its.where(*of)
    found = fetch(source, named.order_by(*newest_first).limit(1))
    return parse_object(found[0][0], f"the definition of experiment {experiment}") if found else None


def revision(source: Source) -> str:
    """Which state of the data this is, in 8 hex digits, in whatever order it came in.

    The hash of the run files that it holds, and of the contributions that are withdrawn.
    """
    files = select(RunFile.sha256).order_by(RunFile.sha256)
    withdrawn = select(Contribution.identity).where(Contribution.withdrawn_at_utc.is_not(None))
    with connected(source) as connection:
        held = [*connection.scalars(files), *connection.scalars(withdrawn.order_by(Contribution.identity))]
    return sha256_of(held)[:8]


def _of_runs(columns: Sequence[Any], only: Only) -> Statement:
    """The columns, of the runs that `only` admits, joined with all that has one row for a run.

    The tally tells which rounds have such runs, so that no others are read.
    """
    statement = (
        select(*columns)
        .select_from(RoundTally)
        .join(Run, and_(Run.round_id == RoundTally.round_id, visible(), *_of_its_kind()))
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
    among = {
        RoundTally.evidence: only.get("evidences"),
        Run.uid: only.get("uids"),
    }
    statement = statement.where(*(column.in_(values) for column, values in among.items() if values is not None))
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


def _of_its_kind() -> list[ColumnElement[bool]]:
    """That a run is of those that a row of the tally counts.

    To add nothing keeps SQLite from looking for runs by platform or status, where it would find far too many.
    """
    return [
        Run.platform_id + 0 == RoundTally.platform_id,
        func.coalesce(Run.contribution_id, 0) == RoundTally.contribution_id,
        Run.evidence + "" == RoundTally.evidence,
        Run.status + "" == RoundTally.status,
    ]


def _ranked(*named: ColumnElement[bool]) -> Subquery:
    """Definitions of the experiments and platforms so named, by age: 1 is the one of its name and scale run last there.

    Each platform and each source by itself, even where sources are joined: what somebody else ran later, or claims to
    have run, does not hide what was run here.
    """
    newest_first = (func.max(RoundTally.newest_run_at_utc).desc(), Experiment.id.desc())
    of = (Experiment.name, Experiment.scale, RoundTally.platform_id, RoundTally.contribution_id)
    age = func.row_number().over(partition_by=of, order_by=newest_first)
    ran = select(Experiment.id, RoundTally.platform_id, RoundTally.contribution_id, age.label("age"))
    ran = ran.select_from(RoundTally).join(Platform, RoundTally.platform_id == Platform.id).join(Round).join(Experiment)
    ran = ran.outerjoin(Contribution, RoundTally.contribution_id == Contribution.id)
    return ran.where(*named).group_by(*of, Experiment.id).subquery()


def _of_run(value: ColumnElement[Any], details: type[Base]) -> ScalarSelect[Any]:
    """A value over the details of each run; NULL where it has none."""
    return select(value).where(details.__table__.columns["run_id"] == Run.id).scalar_subquery()
