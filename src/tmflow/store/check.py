"""Consistency checks of the database: its constraints, and rules that no constraint can express."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import CheckConstraint, Connection, Select, and_, func, not_, or_, select, text

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.probe import document
from tmflow.runfile.record import BACKENDS, Software
from tmflow.spec import abort_codes
from tmflow.spec.factors import ADVISED_DRIVERS
from tmflow.spec.trial import TrialSpec
from tmflow.store import factor_columns, models, rows, writer
from tmflow.store.models import (
    AbortReason,
    Backend,
    Base,
    Campaign,
    Contribution,
    Counters,
    Environment,
    Experiment,
    Platform,
    Probe,
    Round,
    RoundTally,
    Run,
    RunAbort,
    RunFile,
    Spec,
    ThreadAbort,
)
from tmflow.store.rows import Row

Rule = tuple[str, Select[Any]]
"""The message for a row that breaks the rule, with columns in braces, and the query for such rows."""

SHOWN = 5  # violations of a rule that are listed individually


def problems(connection: Connection) -> Iterator[str]:
    """Describe each inconsistency in a sentence. The tables must have the current schema."""
    for sentence, broken in (*_constraints(), *_exactly_once(), *_belonging(), *_sums(), *_tallies()):
        breaches = [sentence.format(**row) for row in connection.execute(broken).mappings()]
        yield from _limit(breaches)
    yield from _limit(list(_wrong_reasons(connection)))
    yield from _limit(list(_wrong_identities(connection)))


def _limit(breaches: Sequence[str]) -> Iterator[str]:
    yield from breaches[:SHOWN]
    if len(breaches) > SHOWN:
        yield f"and {len(breaches) - SHOWN} more of this kind"


def _constraints() -> Iterator[Rule]:
    """Rows that a CHECK should have refused: SQLite can ignore CHECKs, and a CHECK can be dropped."""
    for table in Base.metadata.sorted_tables:
        for check in table.constraints:
            if isinstance(check, CheckConstraint):
                n = func.count().label("n")
                broken = select(n).select_from(table).where(text(f"NOT ({check.sqltext})")).having(n > 0)
                yield f"table {table.name}: {{n}} of its rows violate {check.name} ({check.sqltext})", broken


def _exactly_once() -> Iterator[Rule]:
    n = func.count().label("n")
    yield "run {uid} is stored {n} times", select(Run.uid, n).group_by(Run.uid).having(n > 1)
    yield (
        "{n} runs have the content {content_sha256}",
        select(Run.content_sha256, n).group_by(Run.content_sha256).having(n > 1),
    )
    point = (Campaign.uid, Experiment.name, Experiment.definition_sha256, Round.number, Spec.spec_sha256, Run.repeat)
    yield (
        "repeat {repeat} of the point {spec_sha256} of experiment '{name}' has {n} runs in round {number} of campaign "
        "{uid}",
        select(*point, n)
        .select_from(Run)
        .join(Round)
        .join(Campaign)
        .join(Experiment)
        .join(Spec)
        .group_by(*point, Experiment.scale)
        .having(n > 1),
    )
    yield (
        "run file {name} had {n_runs} runs, and {n} are stored of it",
        select(RunFile.name, RunFile.n_runs, n).join(Run).group_by(RunFile.id).having(n > RunFile.n_runs),
    )
    yield (
        "contribution {name} had {n_runs} runs, and {n} are stored of it",
        select(Contribution.name, Contribution.n_runs, n)
        .join(Run, Run.contribution_id == Contribution.id)
        .group_by(Contribution.id)
        .having(n > Contribution.n_runs),
    )


def _belonging() -> Iterator[Rule]:
    """A run agrees with the rows that it refers to."""
    yield (
        "run {uid} belongs to another platform than its campaign {campaign}",
        select(Run.uid, Campaign.uid.label("campaign"))
        .join(Round, Run.round_id == Round.id)
        .join(Campaign)
        .where(Run.platform_id != Campaign.platform_id, Run.evidence != "published"),
    )
    yield (
        "run {uid} belongs to another platform than its environment",
        select(Run.uid).join(Environment).where(Run.platform_id != Environment.platform_id),
    )
    yield (
        "run {uid} is {evidence}, and its spec has the provider {provider}",
        select(Run.uid, Run.evidence, func.coalesce(Spec.provider, "none").label("provider"))
        .join(Spec)
        .where(
            Run.evidence.in_(("measured", "emulated")),
            (Run.evidence == "emulated") != (func.coalesce(Spec.provider, "") == "emulated"),
        ),
    )
    yield (
        "run {uid} is ok, and its accuracy does not fit driver {driver}",
        select(Run.uid, Spec.driver)
        .join(Spec)
        .where(Run.status == "ok", Run.final_accuracy.is_(None) != Spec.driver.in_(ADVISED_DRIVERS)),
    )
    yield (
        "run {uid} is {evidence}, and its backend is of kind {kind}",
        select(Run.uid, Run.evidence, Backend.kind)
        .join(Backend)
        .where(not_(or_(*(and_(Run.evidence == of, Backend.kind == kind) for of, kind in BACKENDS.items())))),
    )


def _sums() -> Iterator[Rule]:
    """The totals of aborts are the sums over workers and variables, and attempts = commits + aborts."""
    sums = (
        select(ThreadAbort.run_id, ThreadAbort.reason_id, func.sum(ThreadAbort.n).label("n"))
        .group_by(ThreadAbort.run_id, ThreadAbort.reason_id)
        .subquery()
    )
    same = and_(RunAbort.run_id == sums.c.run_id, RunAbort.reason_id == sums.c.reason_id)
    in_all = func.coalesce(RunAbort.n, 0)
    yield (
        "run {uid} has {n} aborts {mechanism} {raw_code} of its workers, but {in_all} in total",
        select(Run.uid, sums.c.n, AbortReason.mechanism, AbortReason.raw_code, in_all.label("in_all"))
        .join_from(sums, Run, Run.id == sums.c.run_id)
        .join(AbortReason, AbortReason.id == sums.c.reason_id)
        .outerjoin(RunAbort, same)
        .where(or_(RunAbort.n.is_(None), RunAbort.n != sums.c.n)),
    )
    yield (
        "run {uid} has {n} aborts {mechanism} {raw_code} in total, but none of any worker",
        select(Run.uid, RunAbort.n, AbortReason.mechanism, AbortReason.raw_code)
        .join_from(RunAbort, Run)
        .join(AbortReason)
        .outerjoin(sums, same)
        .where(sums.c.n.is_(None)),
    )
    counter_key = (Counters.run_id, Counters.worker, Counters.variable)
    abort_key = (ThreadAbort.run_id, ThreadAbort.worker, ThreadAbort.variable)
    n_aborts = func.coalesce(func.sum(ThreadAbort.n), 0).label("n_aborts")
    yield (
        "run {uid}: {attempts} attempts of worker {worker} on {variable}, but {commits} commits and {n_aborts} aborts",
        select(Run.uid, Counters.worker, Counters.variable, Counters.attempts, Counters.commits, n_aborts)
        .join_from(Counters, Run)
        .outerjoin(ThreadAbort, and_(*(a == b for a, b in zip(counter_key, abort_key, strict=True))))
        .where(Counters.attempts.is_not(None), Counters.commits.is_not(None))
        .group_by(Run.uid, *counter_key, Counters.attempts, Counters.commits)
        .having(Counters.attempts != Counters.commits + n_aborts),
    )


def _tallies() -> Iterator[Rule]:
    """The tally of the runs of each round agrees with a new count."""
    counted = writer.TALLIES.subquery()
    same = and_(*(getattr(RoundTally, column.key) == counted.c[column.key] for column in writer.TALLY_KEY))
    round_columns = [Experiment.name, Campaign.uid.label("campaign"), Round.number]
    runs = "round {number} of experiment '{name}' in campaign {campaign} has {n_runs} runs ({evidence}, {status})"
    yield (
        f"{runs}, the newest of {{newest}}, but by its tally {{tallied}}, the newest of {{tallied_newest}}",
        select(
            *round_columns,
            *(counted.c[name] for name in ("n_runs", "evidence", "status")),
            counted.c.newest_run_at_utc.label("newest"),
            func.coalesce(RoundTally.n_runs, 0).label("tallied"),
            func.coalesce(RoundTally.newest_run_at_utc, "none").label("tallied_newest"),
        )
        .join_from(counted, Round, Round.id == counted.c.round_id)
        .join(Campaign)
        .join(Experiment)
        .outerjoin(RoundTally, same)
        .where(
            or_(
                RoundTally.n_runs.is_(None),
                RoundTally.n_runs != counted.c.n_runs,
                RoundTally.newest_run_at_utc != counted.c.newest_run_at_utc,
            )
        ),
    )
    yield (
        f"{runs} by its tally, but there is none",
        select(*round_columns, RoundTally.n_runs, RoundTally.evidence, RoundTally.status)
        .join_from(RoundTally, Round)
        .join(Campaign)
        .join(Experiment)
        .outerjoin(counted, same)
        .where(counted.c.n_runs.is_(None)),
    )


def _wrong_reasons(connection: Connection) -> Iterator[str]:
    """Raw codes have their canonical spelling and the family that the code implies."""
    for reason in _all(connection, AbortReason):
        mechanism, code, family = reason["mechanism"], reason["raw_code"], reason["family"]
        if mechanism not in abort_codes.FAMILIES:
            yield f"abort reason {mechanism} {code}: the mechanism is unknown"
            continue
        try:
            expected = abort_codes.classify(mechanism, int(code, 16))
        except ValueError:
            yield f"abort reason {mechanism} {code}: the raw code is no hexadecimal number"
            continue
        if expected != {"raw_code": code, "family": family}:
            says = f"{expected['raw_code']}, {expected['family']}"
            yield f"abort reason {mechanism} {code}, {family}: the code says {says}"


def _wrong_identities(connection: Connection) -> Iterator[str]:
    """Rows identified by a hash still have that hash, and their columns agree with their facts."""
    facts = {row["id"]: row["facts_json"] for row in _all(connection, Platform)}
    for model, make_row in _MADE.items():
        for row in _all(connection, model):
            where = f"table {model.__tablename__}, row {row['id']}"
            try:
                expected = make_row(row, facts)
            except (ValueError, BadInput) as error:  # pydantic's errors are ValueErrors
                yield f"{where}: is invalid: {' '.join(str(error).split())}"
                continue
            wrong = [name for name, value in expected.items() if name not in ("name", "slug") and row[name] != value]
            if wrong:
                yield f"{where}: {', '.join(wrong)} does not match the rest of the row"


# How the columns of a row follow from its full content; the second argument is the facts of each platform, as JSON.
_MADE: dict[type[Base], Callable[[Row, Mapping[int, str]], Row]] = {
    Platform: lambda row, _: rows.platform_row(json.loads(row["facts_json"])),
    Environment: lambda row, facts: rows.environment_row(
        json.loads(row["facts_json"]), json.loads(facts[row["platform_id"]])
    ),
    models.Software: lambda row, _: rows.software_row(Software.model_validate(rows.part(Software, row))),
    Spec: lambda row, _: rows.spec_row(TrialSpec.model_validate(factor_columns.factors_of(row))),
    Experiment: lambda row, _: {"definition_sha256": sha256_of(json.loads(row["definition_json"]))},
    Probe: lambda row, _: _probe_row(json.loads(row["document_json"])),
    Backend: lambda row, _: {"config_sha256": sha256_of(json.loads(row["config_json"]))},
}


def _probe_row(fields: Row) -> Row:
    probe = document.Probe.model_validate(fields)
    return {"sha256": sha256_of(fields), "evidence": probe.evidence, "started_at_utc": probe.started_at_utc}


def _all(connection: Connection, model: type[Base]) -> list[Row]:
    table = model.__table__
    return [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
