"""Search for runs: counts of the matches by factor and status, and a page of matches in any order.

On SQLite a search scans the index `ix_run_search` for each spec that matches. The index covers all columns that a
search uses, so only the runs of the page are read from the table. The newest or oldest of all runs come from an index
by time. A text is searched first, among the reasons of runs without a result (no others have one) and among the
prefixes of uids; the other conditions then apply to these runs only.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import pandas as pd
from sqlalchemy import ColumnElement, CompoundSelect, case, func, join, or_, select, union_all
from sqlalchemy.orm import InstrumentedAttribute

from tmflow.platform.key import slug_of
from tmflow.store import queries, spec_factors
from tmflow.store.frames import Source, Statement, fetch, frame, of_source, visible
from tmflow.store.models import Experiment, Platform, Round, Run, Spec
from tmflow.store.queries import Value
from tmflow.store.round_counts import SOURCE

WITHOUT_RESULT = ("failed", "timeout", "invalid", "unsupported")
DEFINITION = 8  # hex digits that name a definition

Order = Literal["started", "step_time", "accuracy", "threads"]


class RunFilter(NamedTuple):
    """A filter of runs: a run matches if it has one of the values of each field; an empty field does not restrict."""

    experiments: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    """The first 8 hex digits of the hashes."""
    platforms: tuple[str, ...] = ()
    """The keys of the platforms (`tmflow.platform.key`)."""
    evidences: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    factors: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    """Names of factors, each with its allowed values; a run to which a factor does not apply never matches."""
    joined: bool = False
    """Treat all sources of a platform as one."""
    text: str = ""
    """A part of the reason (ignoring case), a uid, or the first 4 or more characters of a uid."""


def tally(source: Source, search: RunFilter) -> pd.DataFrame:
    """Count the matching runs: every factor, status, n_runs; one row for each spec and status."""
    statement = select(*spec_factors.FACTORS, Run.status, func.count().label("n_runs"))
    grouped = _matching(statement, search).group_by(Spec.id, Run.status)
    return frame(source, grouped.order_by(Spec.id, Run.status))


def page(
    source: Source, search: RunFilter, order: Order = "started", *, down: bool = True, rows: int = 50, offset: int = 0
) -> pd.DataFrame:
    """Read `rows` of the matching runs after the first `offset`, with the columns of `queries.runs`, in this order.

    Runs without a time or an accuracy are last in either direction; ties are ordered newest first.
    """
    run_ids = select(Run.id).limit(rows).offset(offset)
    if order == "started" and search._replace(joined=False) == RunFilter():
        run_ids = run_ids.where(visible()).order_by(
            *(column.desc() if down else column.asc() for column in (Run.started_at_utc, Run.id))
        )
    else:
        run_ids = _matching(run_ids, search).order_by(*_by(order, down))
    # Read the uids in a second query, sorted again: the index of the first does not have them.
    of_page = select(Run.uid).join(Spec).where(Run.id.in_(run_ids)).order_by(*_by(order, down))
    uids = [uid for (uid,) in fetch(source, of_page)]
    table = queries.runs(source, uids=uids, status=None, all_definitions=True, joined=search.joined)
    return table.set_index("uid").loc[uids].reset_index()


def neighbours(source: Source, uid: str) -> tuple[str | None, str | None]:
    """The uids of the runs of the same point, campaign and source in the rounds before and after, or None."""
    position = (
        select(Run.spec_id, Round.campaign_id, Round.experiment_id, Round.number, SOURCE)
        .join(Round)
        .where(Run.uid == uid, visible())
    )
    rows = fetch(source, position)
    if not rows:
        return None, None
    spec, campaign, experiment, number, contribution = rows[0]
    same = (
        select(Run.uid)
        .join(Round)
        .where(Round.campaign_id == campaign, Round.experiment_id == experiment, Run.spec_id == spec, visible())
        .where(contribution == SOURCE)
        .limit(1)
    )
    before = fetch(source, same.where(Round.number < number).order_by(Round.number.desc()))
    after = fetch(source, same.where(Round.number > number).order_by(Round.number))
    return (before[0][0] if before else None), (after[0][0] if after else None)


def _matching(statement: Statement, search: RunFilter) -> Statement:
    """Restrict a statement of specs and runs to the matching runs."""
    if search.text:
        # From the few runs with the text to their specs.
        statement = statement.select_from(join(Run, Spec, _without_index(Run.spec_id) == Spec.id))
        statement = statement.where(Run.id.in_(_with_text(search.text)))
    else:
        statement = statement.select_from(join(Spec, Run, Run.spec_id == _without_index(Spec.id)))
    for factor, values in search.factors:
        statement = statement.where(spec_factors.factor(factor).in_(values))
    of_run = [(Run.status, search.statuses), (Run.evidence, search.evidences)]
    statement = statement.where(*(_without_index(column).in_(values) for column, values in of_run if values))
    if search.platforms:
        statement = statement.where(or_(*(_is_on(key, joined=search.joined) for key in search.platforms)))
    of_experiment: list[tuple[ColumnElement[str], tuple[str, ...]]] = [
        (Experiment.name.expression, search.experiments),
        (Experiment.scale.expression, search.scales),
        (func.substr(Experiment.definition_sha256, 1, DEFINITION), search.definitions),
    ]
    admitted = [column.in_(values) for column, values in of_experiment if values]
    if admitted:
        rounds = select(Round.id).join(Experiment).where(*admitted)
        statement = statement.where(_without_index(Run.round_id).in_(rounds))
    return statement.where(visible())


def _is_on(platform: str, *, joined: bool) -> ColumnElement[bool]:
    """Whether a run is of the platform with this key."""
    of_slug = select(Platform.id).where(Platform.slug == slug_of(platform))
    return _without_index(Run.platform_id).in_(of_slug) & of_source(platform, joined=joined)


def _with_text(text: str) -> CompoundSelect[Any]:
    """The ids of the runs with the text in the reason, as uid, or as prefix of the uid."""
    of_reason = select(Run.id).where(Run.status.in_(WITHOUT_RESULT), Run.reason.icontains(text, autoescape=True))
    uid = text.lower()
    of_uid: ColumnElement[bool] = Run.uid == text
    if re.fullmatch("[0-9a-f][0-9a-f-]{3,}", uid):  # characters of a uid; "g" sorts after them in any collation
        of_uid |= (Run.uid >= uid) & (Run.uid < uid + "g") & Run.uid.startswith(uid)
    return union_all(of_reason, select(Run.id).where(of_uid))


def _without_index(column: InstrumentedAttribute[Any]) -> ColumnElement[Any]:
    """The column as an expression, so that a planner without statistics keeps to the scan and uses no other index."""
    return func.coalesce(column, column)


# Emulated runs show no time, nor do runs without a result, which may have stopped early.
_SHOWS_TIME = (Run.evidence != "emulated") & (Run.status == "ok")

_KEYS: dict[Order, ColumnElement[Any]] = {
    "started": _without_index(Run.started_at_utc),
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
