"""Questions to the database, answered as tables of pandas. Pure functions of an engine or a connection.

A column is named as in the tables; of other tables: `experiment` (its name), `platform` (the slug), `round` (the
number), `campaign_uid`, `hardware_threads` (those that the run could use), `backend` (what stood in for hardware: its
name and 8 hex digits of the hash of its numbers). Times are ISO 8601 text in UTC. Evidence kinds come side by side,
never summed, and an emulated run has no seconds: it shows no time, here or anywhere after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import pandas as pd
from sqlalchemy import BigInteger, ColumnElement, Label, ScalarSelect, Subquery, case, cast, func, select
from sqlalchemy.orm import InstrumentedAttribute

from tmflow.records import Records
from tmflow.spec import TrialSpec, sha256_of
from tmflow.store.frame import Source, Statement, fetch, frame
from tmflow.store.models import (
    AbortReason,
    Backend,
    Base,
    Campaign,
    Counters,
    CurvePoint,
    Environment,
    Experiment,
    LostUpdate,
    Platform,
    Real,
    Retries,
    Round,
    Run,
    RunAbort,
    RunFile,
    Software,
    Spec,
    Staleness,
    VariableRead,
)

FACTORS = [Spec.__table__.columns[name] for name in TrialSpec.model_fields]

BACKEND = Backend.name + " " + func.substr(Backend.config_sha256, 1, 8)

# Those that a run could use: the machine's, or fewer where the process was confined to some. NULL = both unreadable.
HARDWARE_THREADS = case(
    (Environment.cpus_allowed < Platform.threads_logical, Environment.cpus_allowed),
    else_=func.coalesce(Platform.threads_logical, Environment.cpus_allowed),
)


def _seconds(column: InstrumentedAttribute[Any]) -> Label[Any]:
    """A time of a run, NULL where the run is emulated."""
    return case((Run.evidence != "emulated", column)).label(column.key)


class Only(TypedDict, total=False):
    """Which runs: of one value each, or all where a key is absent."""

    experiment: str
    scale: str
    status: Sequence[str] | None
    """Of these; ("ok",) where the key is absent, all where it is None."""
    all_definitions: bool
    """Also the runs of older definitions of an experiment; False where the key is absent."""


def runs(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """One row for each run, oldest first: what it belongs to, all factors, times in seconds, accuracy as a fraction."""
    columns = [
        Run.uid,
        Experiment.name.label("experiment"),
        Experiment.scale,
        Experiment.definition_sha256,
        Campaign.uid.label("campaign_uid"),
        Round.number.label("round"),
        Platform.slug.label("platform"),
        Platform.name.label("platform_name"),
        HARDWARE_THREADS.label("hardware_threads"),
        Platform.tm_capability,
        Run.evidence,
        BACKEND.label("backend"),
        Run.time_domain,
        Run.status,
        Run.reason,
        *FACTORS,
        Run.ordinal,
        Run.trial_seed,
        Run.resumed,
        Run.disturbed,
        Run.started_at_utc,
        *map(_seconds, (Run.setup_s, Run.loop_s, Run.evaluation_s, Run.total_s)),
        Run.final_accuracy,
        Run.dataset_sha256,
    ]
    return frame(source, _of_runs(columns, only).order_by(Run.started_at_utc, Run.id))


def software(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, and the software that measured each run: versions, the commit of its checkout, and whether that was changed.

    NA where it could not be known.
    """
    versions = [column for column in Software.__table__.columns if column.name not in ("id", "software_sha256")]
    statement = _of_runs([Run.uid, *versions], only).join(Software, Run.software_id == Software.id)
    return frame(source, statement.order_by(Run.id))


def curves(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, iteration, elapsed_s, accuracy (a fraction): the points on the way of each run that measured them."""
    columns = [Run.uid, CurvePoint.iteration, _seconds(CurvePoint.elapsed_s), CurvePoint.accuracy]
    return frame(source, _of_runs(columns, only).join(CurvePoint).order_by(Run.id, CurvePoint.iteration))


def staleness(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, staleness, steps: of each run that measured it, how many steps saw that many updates by others."""
    columns = [Run.uid, Staleness.staleness, _total(Staleness.steps).label("steps")]
    grouped = _of_runs(columns, only).join(Staleness).group_by(Run.id, Run.uid, Staleness.staleness)
    return frame(source, grouped.order_by(Run.id, Staleness.staleness)).astype({"steps": "int64"})


def transactions(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, commits, fallbacks, attempts of all workers and variables, of each run that counted commits.

    A count that could not be known is NA.
    """
    columns = [Run.uid, *(_total(n).label(n.key) for n in (Counters.commits, Counters.fallbacks, Counters.attempts))]
    grouped = _of_runs(columns, only).join(Counters).where(Counters.commits.is_not(None)).group_by(Run.id, Run.uid)
    return frame(source, grouped.order_by(Run.id))


def full_measures(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """What becomes of updates, reads and time in each run that was measured in full: one row each.

    uid; lost_fraction, of all updates of elements; torn_fraction, of all reads of variables; lock_waited_fraction and
    lock_held_fraction, of the time of all workers together. NaN where it was not measured; an emulated run shows no
    time, nor a share of it.
    """
    time = Spec.threads * case((Run.evidence != "emulated", Run.loop_s))
    columns = [
        Run.uid,
        _of_run(_share(LostUpdate.lost, LostUpdate.expected), LostUpdate).label("lost_fraction"),
        _of_run(_share(VariableRead.torn, VariableRead.reads), VariableRead).label("torn_fraction"),
        (_of_run(func.sum(Counters.lock_waited_s), Counters) / time).label("lock_waited_fraction"),
        (_of_run(func.sum(Counters.lock_held_s), Counters) / time).label("lock_held_fraction"),
    ]
    return frame(source, _of_runs(columns, only).where(Spec.measures == "full").order_by(Run.id))


def retries(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, retries, sections: of each run that counted them, how many critical sections failed exactly so often."""
    columns = [Run.uid, Retries.retries, _total(Retries.sections).label("sections")]
    grouped = _of_runs(columns, only).join(Retries).group_by(Run.id, Run.uid, Retries.retries)
    return frame(source, grouped.order_by(Run.id, Retries.retries)).astype({"sections": "int64"})


def aborts(source: Source, **only: Unpack[Only]) -> pd.DataFrame:
    """uid, mechanism, family, raw_code, n: how often the transactions of each run aborted, and how."""
    keys = [AbortReason.mechanism, AbortReason.family, AbortReason.raw_code]
    joined = _of_runs([Run.uid, *keys, _total(RunAbort.n).label("n")], only).join(RunAbort).join(AbortReason)
    return frame(source, joined.group_by(Run.id, Run.uid, *keys).order_by(Run.id, *keys)).astype({"n": "int64"})


def records(source: Source, experiment: str, scale: str) -> Records:
    """All that figures and tables of an experiment are made from, its runs of any status."""
    only: Only = {"experiment": experiment, "scale": scale}
    return Records(
        runs=runs(source, experiment=experiment, scale=scale, status=None),
        curves=curves(source, **only),
        staleness=staleness(source, **only),
        transactions=transactions(source, **only),
        aborts=aborts(source, **only),
        full=full_measures(source, **only),
    )


def counts(source: Source) -> pd.DataFrame:
    """experiment, scale, platform, evidence, status, n_runs: how much the database holds, of all definitions."""
    keys = [
        Experiment.name.label("experiment"),
        Experiment.scale,
        Platform.slug.label("platform"),
        Run.evidence,
        Run.status,
    ]
    statement = _of_runs([*keys, func.count().label("n_runs")], {"status": None, "all_definitions": True})
    return frame(source, statement.group_by(*keys).order_by(*keys))


def rounds(source: Source) -> pd.DataFrame:
    """experiment, definition_sha256, round, platform_sha256: those that the database holds runs of, of any campaign."""
    columns = [Experiment.name.label("experiment"), Experiment.definition_sha256, Round.number.label("round")]
    statement = (
        select(*columns, Platform.facts_sha256.label("platform_sha256"))
        .select_from(Round)
        .join(Experiment, Round.experiment_id == Experiment.id)
        .join(Campaign, Round.campaign_id == Campaign.id)
        .join(Platform, Campaign.platform_id == Platform.id)
    )
    return frame(source, statement.order_by(Round.id))


def revision(source: Source) -> str:
    """Which state of the data this is, in 8 hex digits: the hash of the run files that it holds, in whatever order."""
    files = fetch(source, select(RunFile.sha256).order_by(RunFile.sha256))
    return sha256_of([sha256 for (sha256,) in files])[:8]


def _of_runs(columns: Sequence[Any], only: Only) -> Statement:
    """The columns, of the runs that `only` admits, joined with all that has one row for a run."""
    statement = (
        select(*columns)
        .select_from(Run)
        .join(Spec, Run.spec_id == Spec.id)
        .join(Platform, Run.platform_id == Platform.id)
        .outerjoin(Backend, Run.backend_id == Backend.id)
        .outerjoin(Environment, Run.environment_id == Environment.id)
        .join(Round, Run.round_id == Round.id)
        .join(Campaign, Round.campaign_id == Campaign.id)
        .join(Experiment, Round.experiment_id == Experiment.id)
    )
    equal: dict[str, InstrumentedAttribute[str]] = {"experiment": Experiment.name, "scale": Experiment.scale}
    statement = statement.where(*(equal[name] == value for name, value in only.items() if name in equal))
    status = only.get("status", ("ok",))
    if status is not None:
        statement = statement.where(Run.status.in_(status))
    if not only.get("all_definitions", False):
        ranked = _ranked()
        statement = statement.where(Experiment.id.in_(select(ranked.c.id).where(ranked.c.age == 1)))
    return statement


def _ranked() -> Subquery:
    """Definitions by age: 1 is the one of its name and scale that was run last."""
    newest_first = (Experiment.last_run_at_utc.desc(), Experiment.id.desc())
    age = func.row_number().over(partition_by=(Experiment.name, Experiment.scale), order_by=newest_first)
    return select(Experiment.id, age.label("age")).subquery()


def _of_run(value: ColumnElement[Any], details: type[Base]) -> ScalarSelect[Any]:
    """A value over the details of each run; NULL where it has none."""
    return select(value).where(details.__table__.columns["run_id"] == Run.id).scalar_subquery()


def _share(part: InstrumentedAttribute[int], whole: InstrumentedAttribute[int]) -> ColumnElement[float]:
    return cast(func.sum(part), Real) / cast(func.nullif(func.sum(whole), 0), Real)


def _total(column: InstrumentedAttribute[Any]) -> ColumnElement[int]:
    # PostgreSQL's sum of big integers is a decimal number.
    return cast(func.sum(column), BigInteger)
