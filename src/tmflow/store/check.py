"""Whether what the database holds agrees with itself: what constraints enforce, and what no constraint can say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from sqlalchemy import CheckConstraint, Connection, Select, and_, func, not_, or_, select, text

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.probe import document
from tmflow.runfile.record import BACKENDS, Software
from tmflow.spec import abort_codes
from tmflow.spec.trial import TrialSpec
from tmflow.store import models, round_counts, rows, spec_factors
from tmflow.store.dedup import Row
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

Rule = tuple[str, Select[Any]]
"""What is said of each row that should not be there, with its columns in braces, and the query for such rows."""

SHOWN = 5  # breaches of a rule that are told one by one


def problems(connection: Connection) -> Iterator[str]:
    """A sentence for each thing that is wrong. The tables must be as this tmflow has them."""
    for sentence, broken in (*_constraints(), *_exactly_once(), *_belonging(), *_sums(), *_tallies()):
        found = [sentence.format(**row) for row in connection.execute(broken).mappings()]
        yield from _some(found)
    yield from _some(list(_wrong_reasons(connection)))
    yield from _some(list(_wrong_identities(connection)))


def _some(found: Sequence[str]) -> Iterator[str]:
    yield from found[:SHOWN]
    if len(found) > SHOWN:
        yield f"and {len(found) - SHOWN} more of that kind"


def _constraints() -> Iterator[Rule]:
    """Of each CHECK, the rows that it should have refused: SQLite can be told to look away, and any can be dropped."""
    for table in Base.metadata.sorted_tables:
        for check in table.constraints:
            if isinstance(check, CheckConstraint):
                n = func.count().label("n")
                broken = select(n).select_from(table).where(text(f"NOT ({check.sqltext})")).having(n > 0)
                yield f"table {table.name}: {{n}} of its rows are against {check.name} ({check.sqltext})", broken


def _exactly_once() -> Iterator[Rule]:
    n = func.count().label("n")
    yield "run {uid} is stored {n} times", select(Run.uid, n).group_by(Run.uid).having(n > 1)
    yield (
        "{n} runs have the content {content_sha256}",
        select(Run.content_sha256, n).group_by(Run.content_sha256).having(n > 1),
    )
    point = (Campaign.uid, Experiment.name, Experiment.definition_sha256, Round.number, Spec.spec_sha256)
    yield (
        "the point {spec_sha256} of experiment '{name}' has {n} runs in round {number} of campaign {uid}",
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
    """What a run refers to agrees with the run."""
    yield (
        "run {uid} is of another platform than its campaign {campaign}",
        select(Run.uid, Campaign.uid.label("campaign"))
        .join(Round, Run.round_id == Round.id)
        .join(Campaign)
        .where(Run.platform_id != Campaign.platform_id, Run.evidence != "published"),
    )
    yield (
        "run {uid} is of another platform than its environment",
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
        "run {uid} is {evidence}, and its backend is of kind {kind}",
        select(Run.uid, Run.evidence, Backend.kind)
        .join(Backend)
        .where(not_(or_(*(and_(Run.evidence == of, Backend.kind == kind) for of, kind in BACKENDS.items())))),
    )


def _sums() -> Iterator[Rule]:
    """The rollup of aborts is their sum, and attempts are the aborts and commits that they ended in."""
    sums = (
        select(ThreadAbort.run_id, ThreadAbort.reason_id, func.sum(ThreadAbort.n).label("n"))
        .group_by(ThreadAbort.run_id, ThreadAbort.reason_id)
        .subquery()
    )
    same = and_(RunAbort.run_id == sums.c.run_id, RunAbort.reason_id == sums.c.reason_id)
    told = func.coalesce(RunAbort.n, 0)
    yield (
        "run {uid} has {n} aborts {mechanism} {raw_code} of its workers, but {told} in all",
        select(Run.uid, sums.c.n, AbortReason.mechanism, AbortReason.raw_code, told.label("told"))
        .join_from(sums, Run, Run.id == sums.c.run_id)
        .join(AbortReason, AbortReason.id == sums.c.reason_id)
        .outerjoin(RunAbort, same)
        .where(or_(RunAbort.n.is_(None), RunAbort.n != sums.c.n)),
    )
    yield (
        "run {uid} has {n} aborts {mechanism} {raw_code} in all, but none of any worker",
        select(Run.uid, RunAbort.n, AbortReason.mechanism, AbortReason.raw_code)
        .join_from(RunAbort, Run)
        .join(AbortReason)
        .outerjoin(sums, same)
        .where(sums.c.n.is_(None)),
    )
    each = (Counters.run_id, Counters.worker, Counters.variable)
    its = (ThreadAbort.run_id, ThreadAbort.worker, ThreadAbort.variable)
    n_aborts = func.coalesce(func.sum(ThreadAbort.n), 0).label("n_aborts")
    yield (
        "run {uid}: {attempts} attempts of worker {worker} on {variable}, but {commits} commits and {n_aborts} aborts",
        select(Run.uid, Counters.worker, Counters.variable, Counters.attempts, Counters.commits, n_aborts)
        .join_from(Counters, Run)
        .outerjoin(ThreadAbort, and_(*(own == other for own, other in zip(each, its, strict=True))))
        .where(Counters.attempts.is_not(None), Counters.commits.is_not(None))
        .group_by(Run.uid, *each, Counters.attempts, Counters.commits)
        .having(Counters.attempts != Counters.commits + n_aborts),
    )


def _tallies() -> Iterator[Rule]:
    """The tally of the runs of each round is what counting them gives."""
    counted = round_counts.COUNTED.subquery()
    same = and_(*(getattr(RoundTally, column.key) == counted.c[column.key] for column in round_counts.KEY))
    which = [Experiment.name, Campaign.uid.label("campaign"), Round.number]
    runs = "round {number} of experiment '{name}' in campaign {campaign} has {n_runs} runs ({evidence}, {status})"
    yield (
        f"{runs}, the newest of {{newest}}, but by its tally {{told}}, the newest of {{told_newest}}",
        select(
            *which,
            *(counted.c[name] for name in ("n_runs", "evidence", "status")),
            counted.c.newest_run_at_utc.label("newest"),
            func.coalesce(RoundTally.n_runs, 0).label("told"),
            func.coalesce(RoundTally.newest_run_at_utc, "none").label("told_newest"),
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
        select(*which, RoundTally.n_runs, RoundTally.evidence, RoundTally.status)
        .join_from(RoundTally, Round)
        .join(Campaign)
        .join(Experiment)
        .outerjoin(counted, same)
        .where(counted.c.n_runs.is_(None)),
    )


def _wrong_reasons(connection: Connection) -> Iterator[str]:
    """Raw codes are spelt in one way, and have the family that the code tells."""
    for reason in _all(connection, AbortReason):
        mechanism, code, family = reason["mechanism"], reason["raw_code"], reason["family"]
        if mechanism not in abort_codes.FAMILIES:
            yield f"abort reason {mechanism} {code}: the mechanism is unknown"
            continue
        try:
            told = abort_codes.described(mechanism, int(code, 16))
        except ValueError:
            yield f"abort reason {mechanism} {code}: the raw code is no hexadecimal number"
            continue
        if told != {"raw_code": code, "family": family}:
            yield f"abort reason {mechanism} {code}, {family}: the code says {told['raw_code']}, {told['family']}"


def _wrong_identities(connection: Connection) -> Iterator[str]:
    """What is known by its hash still has it, and columns say what the facts do."""
    facts = {row["id"]: row["facts_json"] for row in _all(connection, Platform)}
    for model, made in _MADE.items():
        for row in _all(connection, model):
            where = f"table {model.__tablename__}, row {row['id']}"
            try:
                expected = made(row, facts)
            except (ValueError, BadInput) as error:  # ValueError is pydantic's too
                yield f"{where}: is none: {' '.join(str(error).split())}"
                continue
            wrong = [name for name, value in expected.items() if name not in ("name", "slug") and row[name] != value]
            if wrong:
                yield f"{where}: {', '.join(wrong)} is not what the rest of it says"


# How rows follow from what they hold whole; the second argument is the facts of each platform, as JSON.
_MADE: dict[type[Base], Callable[[Row, Mapping[int, str]], Row]] = {
    Platform: lambda row, _: rows.platform_row(json.loads(row["facts_json"])),
    Environment: lambda row, facts: rows.environment_row(
        json.loads(row["facts_json"]), json.loads(facts[row["platform_id"]])
    ),
    models.Software: lambda row, _: rows.software_row(Software.model_validate(_part(Software, row))),
    Spec: lambda row, _: rows.spec_row(TrialSpec.model_validate(spec_factors.factors_of(row))),
    Experiment: lambda row, _: {"definition_sha256": sha256_of(json.loads(row["definition_json"]))},
    Probe: lambda row, _: _probe_row(json.loads(row["document_json"])),
    Backend: lambda row, _: {"config_sha256": sha256_of(json.loads(row["config_json"]))},
}


def _probe_row(told: Row) -> Row:
    probe = document.Probe.model_validate(told)
    return {"sha256": sha256_of(told), "evidence": probe.evidence, "started_at_utc": probe.started_at_utc}


def _part(model: type[BaseModel], row: Row) -> Row:
    return {name: row[name] for name in model.model_fields}


def _all(connection: Connection, model: type[Base]) -> list[Row]:
    table = model.__table__
    return [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
