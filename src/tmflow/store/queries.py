"""Queries of the database that return pandas data frames. All functions take an engine or a connection.

Columns have the names of the table. Columns of other tables: `experiment` (the name), `platform` (platform and source:
`tmflow.platform.facts`), `round` (the number), `campaign_uid`, `hardware_threads` (those that the run could use),
`backend` (the emulator or simulator: its name and 8 hex digits of the hash of its configuration). Timestamps are ISO
8601 text in UTC. Kinds of evidence are never summed. An emulated run has no times: its seconds are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd
from sqlalchemy import ColumnElement, Connection, ScalarSelect, case, exists, func, select, tuple_

from tmflow.analysis import versions
from tmflow.analysis.run_table import Loaded
from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import parse_object
from tmflow.platform.facts import LONGEST_S, MOST_COUNTED
from tmflow.store import factor_columns, software_labels
from tmflow.store.frames import (
    SOURCE,
    Source,
    connected,
    fetch,
    first,
    frame,
    from_tally,
    loop_seconds,
    of_run,
    on_platforms,
    platform_columns,
    seconds,
    share,
    total,
    total_s,
    visible,
    with_facts,
)
from tmflow.store.models import (
    AbortReason,
    Base,
    Campaign,
    Contribution,
    Counters,
    CurvePoint,
    Environment,
    Experiment,
    LostUpdate,
    Phase,
    Platform,
    Process,
    Real,
    Round,
    RoundTally,
    Run,
    RunAbort,
    RunFile,
    Software,
    Spec,
    Staleness,
    VariableRead,
)
from tmflow.store.run_filter import RESULTS, RunFilter, select_by_round, select_by_spec, without_index

Order = Literal["started", "step_time", "accuracy", "threads"]
"""The orders of `page`."""


def runs(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """One row per run, oldest first: experiment to round, all factors, times in seconds, accuracy as a fraction.

    `software` is a label of the software that measured the run; different software has different labels. Unless all
    versions are wanted, `runs_left_out` is the number of runs by other versions, with any status, in the sample of a
    run (`analysis.versions.SAMPLE`), whatever other runs of the sample the filter leaves out.
    """
    with connected(source) as connection:
        table = _labelled_runs(connection, only)
        if only.versions == "all":
            return table
        # The version of a sample does not depend on which of its runs are wanted.
        samples = table if only == only.of_samples else _labelled_runs(connection, only.of_samples)
        return versions.without_others(table, samples)


def _labelled_runs(connection: Connection, only: RunFilter) -> pd.DataFrame:
    """The columns of `runs`, for all software versions."""
    columns = [*of_run(joined=only.joined), Run.software_id]
    table = frame(connection, select_by_round(columns, only).order_by(Run.started_at_utc, Run.id))
    table = with_facts(connection, table, "spec_id", Spec.__table__.columns["id"], factor_columns.FACTORS)
    labels = software_labels.of_runs(connection, table[["software_id", "campaign_uid"]])
    return table.assign(software=labels).drop(columns="software_id")


def origins(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """uid, env_sha256, software_sha256: the environment and the software of each run.

    The environment of a published run is NA. `platform_queries` returns the facts for the hashes.
    """
    statement = select_by_round([Run.uid, Environment.env_sha256, Software.software_sha256], only)
    return frame(source, statement.join(Software, Run.software_id == Software.id).order_by(Run.id))


def uids_of_software(
    source: Source, only: RunFilter, software: Mapping[str, Any], campaign_uid: str | None
) -> frozenset[str]:
    """The uids of the runs by the same software as runs of this campaign by `software` (`software_labels.is_of`)."""
    with connected(source) as connection:
        table = frame(connection, select_by_round([*of_run(joined=only.joined), Run.software_id], only))
        is_same = software_labels.is_of(connection, table[["software_id", "campaign_uid"]], software, campaign_uid)
    return frozenset(table.loc[is_same, "uid"])


def curves(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """uid, iteration, elapsed_s, accuracy (a fraction): the accuracy curve of each run that measured one.

    Points after the last step, and points with an impossible time, are left out.
    """
    columns = [Run.uid, CurvePoint.iteration, seconds(CurvePoint.elapsed_s), CurvePoint.accuracy]
    possible = (CurvePoint.iteration <= Spec.iterations, CurvePoint.elapsed_s <= LONGEST_S)
    joined = select_by_round(columns, only).join(CurvePoint).where(*possible)
    return frame(source, joined.order_by(Run.id, CurvePoint.iteration))


def staleness(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """uid, staleness, steps: how many steps of a run saw this many updates by other workers.

    Only for runs that measured it. A staleness above the steps of the run is impossible; it is clipped to the steps.
    """
    behind = case((Staleness.staleness > Spec.iterations, Spec.iterations), else_=Staleness.staleness)
    columns = [Run.uid, behind.label("staleness"), total(Staleness.steps).label("steps")]
    grouped = select_by_round(columns, only).join(Staleness).group_by(Run.id, Run.uid, behind)
    return frame(source, grouped.order_by(Run.id, behind)).astype({"staleness": "int64", "steps": "int64"})


def transactions(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """uid, commits, fallbacks, attempts: totals over workers and variables of each run that counted commits.

    An unknown count is NA.
    """
    columns = [Run.uid, *(total(n).label(n.key) for n in (Counters.commits, Counters.fallbacks, Counters.attempts))]
    grouped = (
        select_by_round(columns, only).join(Counters).where(Counters.commits.is_not(None)).group_by(Run.id, Run.uid)
    )
    return frame(source, grouped.order_by(Run.id))


def variable_transactions(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """uid, variable, updates, commits, fallbacks: totals over workers of each run that counted commits.

    An unknown count is NA.
    """
    counted = (total(n).label(n.key) for n in (Counters.updates, Counters.commits, Counters.fallbacks))
    joined = select_by_round([Run.uid, Counters.variable, *counted], only).join(Counters)
    grouped = joined.where(Counters.commits.is_not(None)).group_by(Run.id, Run.uid, Counters.variable)
    return frame(source, grouped.order_by(Run.id, Counters.variable))


def full_measures(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """Lost updates, torn reads, inconsistency and time under locks of each run with full measures, one row each.

    uid; lost_fraction of all element updates; torn_fraction of all reads of variables; inconsistent_fraction of the
    elements of variables beside which the optimiser keeps arrays; lock_waited_fraction and lock_held_fraction of the
    time of all workers together. NaN if not measured; the fractions of time are NaN for emulated runs.
    """
    time = Spec.threads * loop_seconds().element
    columns = [
        Run.uid,
        _of_run(share(LostUpdate.lost, LostUpdate.expected), LostUpdate).label("lost_fraction"),
        _of_run(share(VariableRead.torn, VariableRead.reads), VariableRead).label("torn_fraction"),
        _of_run(share(LostUpdate.inconsistent, LostUpdate.elements), LostUpdate).label("inconsistent_fraction"),
        (_of_run(total_s(Counters.lock_waited_s), Counters) / time).label("lock_waited_fraction"),
        (_of_run(total_s(Counters.lock_held_s), Counters) / time).label("lock_held_fraction"),
    ]
    return frame(source, select_by_round(columns, only).where(Spec.measures == "full").order_by(Run.id))


def phases(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """uid, phase, phase_us, transfers, bytes: means of a step in a phase, over the workers of a run that traced steps.

    phase_us in microseconds; transfers between tasks and their bytes are NaN in phases that have none, and in runs of
    earlier versions.
    """
    columns = {"phase_us": 1e6 * Phase.seconds}
    columns |= {of.key: case((of <= MOST_COUNTED, of)) for of in (Phase.transfers, Phase.bytes)}
    means = [func.avg(value, type_=Real()).label(name) for name, value in columns.items()]
    joined = select_by_round([Run.uid, Phase.phase, *means], only).join(Phase)
    possible = joined.where(Run.evidence != "emulated", Phase.seconds <= LONGEST_S)
    return frame(source, possible.group_by(Run.id, Run.uid, Phase.phase).order_by(Run.id, Phase.phase))


def processes(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """uid, others_per_s: steps per second of a worker of a cluster, by its own clock, over all workers but the last.

    Only for clusters of two or more workers. The last worker is the one that may be slowed down.
    """
    per_s = func.sum(Process.steps, type_=Real()) / func.sum(Process.loop_s, type_=Real())
    joined = select_by_round([Run.uid, per_s.label("others_per_s")], only).join(Process)
    others = joined.where(Process.role == "worker", Process.index < Spec.threads - 1, Process.loop_s > 0)
    possible = others.where(Run.evidence != "emulated", Process.loop_s <= LONGEST_S)
    return frame(source, possible.group_by(Run.id, Run.uid).order_by(Run.id))


def aborts(source: Source, only: RunFilter = RESULTS) -> pd.DataFrame:
    """uid, mechanism, family, raw_code, n: how often the transactions of a run aborted, by cause."""
    keys = [AbortReason.mechanism, AbortReason.family, AbortReason.raw_code]
    joined = select_by_round([Run.uid, *keys, total(RunAbort.n).label("n")], only).join(RunAbort).join(AbortReason)
    return frame(source, joined.group_by(Run.id, Run.uid, *keys).order_by(Run.id, *keys)).astype({"n": "int64"})


# The function that reads each table of `Records`.
TABLES: dict[str, Callable[..., pd.DataFrame]] = {
    "runs": lambda source, only: runs(source, replace(only, statuses=None)),
    "curves": curves,
    "staleness": staleness,
    "transactions": transactions,
    "aborts": aborts,
    "full": full_measures,
    "variables": variable_transactions,
    "phases": phases,
}


def records(source: Source, only: RunFilter = RESULTS) -> Loaded:
    """Read all tables that figures need, including runs without a result."""
    tables = {name: read(source, only) for name, read in TABLES.items()}
    if only.versions == "one":
        uids = tables["runs"]["uid"]
        tables = {name: table[table["uid"].isin(uids)].reset_index(drop=True) for name, table in tables.items()}
    return Loaded(**tables)


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
    return frame(source, from_tally(*keys, *counted).group_by(*keys).order_by(*keys)).astype({"n_runs": "int64"})


def rounds(source: Source) -> pd.DataFrame:
    """experiment, definition_sha256, round, platform_sha256 of the rounds with local runs, in any campaign.

    Contributed runs do not count: a study on this machine neither measures them nor lacks them.
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
    newest_first = (RoundTally.newest_run_at_utc.desc(), Experiment.id.desc())
    matches = (Experiment.name == experiment, Experiment.scale == scale, on_platforms(platforms, joined=joined))
    newest = first(source, from_tally(Experiment.definition_json).where(*matches).order_by(*newest_first))
    return None if newest is None else parse_object(newest, f"the definition of experiment {experiment}")


def revision(source: Source) -> str:
    """The revision of the data, 8 hex digits; it does not depend on the order of ingest.

    This is a hash over the stored run files and the withdrawn contributions.
    """
    files = select(RunFile.sha256).order_by(RunFile.sha256)
    withdrawn = select(Contribution.identity).where(Contribution.withdrawn_at_utc.is_not(None))
    with connected(source) as connection:
        held = [*connection.scalars(files), *connection.scalars(withdrawn.order_by(Contribution.identity))]
    return sha256_of(held)[:8]


def tally(source: Source, only: RunFilter) -> pd.DataFrame:
    """Count the matching runs: every factor, status, n_runs; one row for each spec and status."""
    columns = [*factor_columns.FACTORS, Run.status, func.count().label("n_runs")]
    grouped = select_by_spec(columns, only).group_by(Spec.id, Run.status)
    return frame(source, grouped.order_by(Spec.id, Run.status))


def page(
    source: Source, only: RunFilter, order: Order = "started", *, down: bool = True, rows: int = 50, offset: int = 0
) -> pd.DataFrame:
    """Read `rows` of the matching runs after the first `offset`, with the columns of `runs`, in this order.

    Runs without a time or an accuracy are last in either direction; ties are ordered newest first.
    """
    if order == "started" and replace(only, joined=False) == RunFilter():
        started = (Run.started_at_utc, Run.id)  # an index has all runs by time
        page_ids = select(Run.id).where(visible()).order_by(*(c.desc() if down else c.asc() for c in started))
    else:
        page_ids = select_by_spec([Run.id], only).order_by(*_by(order, down))
    page_ids = page_ids.limit(rows).offset(offset)
    # Read the uids in a second query, sorted again: the index of the first does not have them.
    of_page = select(Run.uid).join(Spec).where(Run.id.in_(page_ids)).order_by(*_by(order, down))
    uids = [uid for (uid,) in fetch(source, of_page)]
    table = runs(source, RunFilter(uids=uids, joined=only.joined))
    return table.set_index("uid").loc[uids].reset_index()


def neighbours(source: Source, uid: str) -> tuple[str | None, str | None]:
    """The uids of the runs of the same point, campaign and source before and after, or None.

    They are ordered by round and repeat.
    """
    position = (
        select(Run.spec_id, Round.campaign_id, Round.experiment_id, Round.number, Run.repeat, SOURCE)
        .join(Round)
        .where(Run.uid == uid, visible())
    )
    rows = fetch(source, position)
    if not rows:
        return None, None
    spec, campaign, experiment, number, repeat, contribution = rows[0]
    same = (
        select(Run.uid)
        .join(Round)
        .where(Round.campaign_id == campaign, Round.experiment_id == experiment, Run.spec_id == spec, visible())
        .where(contribution == SOURCE)
    )
    place, here = tuple_(Round.number, Run.repeat), tuple_(number, repeat)
    before = first(source, same.where(place < here).order_by(Round.number.desc(), Run.repeat.desc()))
    after = first(source, same.where(place > here).order_by(Round.number, Run.repeat))
    return before, after


# Emulated runs show no time, nor do runs without a result, which may have stopped early.
_SHOWS_TIME = (Run.evidence != "emulated") & (Run.status == "ok")

_KEYS: dict[Order, ColumnElement[Any]] = {
    "started": without_index(Run.started_at_utc),
    "step_time": case((_SHOWS_TIME, Run.loop_s / Spec.iterations)),
    "accuracy": Run.final_accuracy.expression,
    "threads": Spec.threads.expression,
}


def _by(order: Order, down: bool) -> list[ColumnElement[Any]]:
    key = _KEYS[order]
    newest = [_KEYS["started"].desc(), Run.id.desc()]
    if order == "started" and not down:
        newest = [_KEYS["started"].asc(), Run.id.asc()]
    return [(key.desc() if down else key.asc()).nulls_last(), *newest]


def _of_run(value: ColumnElement[Any], details: type[Base]) -> ScalarSelect[Any]:
    """Aggregate the details of each run; NULL for a run without details."""
    return select(value).where(details.__table__.columns["run_id"] == Run.id).scalar_subquery()
