"""The search for runs: what matches, counted by factor and status, and a page of it in any order.

On SQLite each question is one walk over the index `ix_run_search`, spec by spec, for the specs that match: it holds all
that a search asks of a run, so only the runs of the page itself are read from their table. The newest or oldest of all
runs come from an index by time. A text is looked for in the reasons of the runs without a result alone, which are the
only ones that have a reason, and among the uids that begin with it; what else is asked, of those that have it alone.
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


class Asked(NamedTuple):
    """Which runs: those that have one of the values of each that is not empty."""

    experiments: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    """The first 8 hex digits of each."""
    platforms: tuple[str, ...] = ()
    """Their keys (`tmflow.platform.key`)."""
    evidences: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    factors: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    """Of each factor named the values; a run to which it does not apply has none of them."""
    joined: bool = False
    """The sources of a platform as one."""
    text: str = ""
    """In the reason, whatever its case; or the uid, or its first 4 characters or more."""


def tally(source: Source, asked: Asked) -> pd.DataFrame:
    """How many runs match: every factor, status, n_runs; one row for each spec and status."""
    statement = select(*spec_factors.FACTORS, Run.status, func.count().label("n_runs"))
    grouped = _matching(statement, asked).group_by(Spec.id, Run.status)
    return frame(source, grouped.order_by(Spec.id, Run.status))


def page(
    source: Source, asked: Asked, order: Order = "started", *, down: bool = True, rows: int = 50, offset: int = 0
) -> pd.DataFrame:
    """`rows` of the runs that match, after the first `offset`: the columns of `queries.runs`, in this order.

    Runs without a time or an accuracy are last, whichever way; equals come newest first.
    """
    found = select(Run.id).limit(rows).offset(offset)
    if order == "started" and asked._replace(joined=False) == Asked():
        found = found.where(visible()).order_by(
            *(column.desc() if down else column.asc() for column in (Run.started_at_utc, Run.id))
        )
    else:
        found = _matching(found, asked).order_by(*_by(order, down))
    # By their uids, and in their order once more: the walk itself reads no uid.
    of_page = select(Run.uid).join(Spec).where(Run.id.in_(found)).order_by(*_by(order, down))
    uids = [uid for (uid,) in fetch(source, of_page)]
    table = queries.runs(source, uids=uids, status=None, all_definitions=True, joined=asked.joined)
    return table.set_index("uid").loc[uids].reset_index()


def neighbours(source: Source, uid: str) -> tuple[str | None, str | None]:
    """The uids of the run of the same point in the round before and after, of the same campaign and source.

    None where there is none.
    """
    own = (
        select(Run.spec_id, Round.campaign_id, Round.experiment_id, Round.number, SOURCE)
        .join(Round)
        .where(Run.uid == uid, visible())
    )
    rows = fetch(source, own)
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


def _matching(statement: Statement, asked: Asked) -> Statement:
    """The statement, of specs and runs, for the runs that match."""
    if asked.text:
        # From the few runs that have it to their specs.
        statement = statement.select_from(join(Run, Spec, _by_walking(Run.spec_id) == Spec.id))
        statement = statement.where(Run.id.in_(_with_text(asked.text)))
    else:
        statement = statement.select_from(join(Spec, Run, Run.spec_id == _by_walking(Spec.id)))
    for factor, values in asked.factors:
        statement = statement.where(spec_factors.factor(factor).in_(values))
    wanted = [(Run.status, asked.statuses), (Run.evidence, asked.evidences)]
    statement = statement.where(*(_by_walking(column).in_(values) for column, values in wanted if values))
    if asked.platforms:
        statement = statement.where(or_(*(_is_on(key, joined=asked.joined) for key in asked.platforms)))
    of_experiment: list[tuple[ColumnElement[str], tuple[str, ...]]] = [
        (Experiment.name.expression, asked.experiments),
        (Experiment.scale.expression, asked.scales),
        (func.substr(Experiment.definition_sha256, 1, DEFINITION), asked.definitions),
    ]
    admitted = [column.in_(values) for column, values in of_experiment if values]
    if admitted:
        rounds = select(Round.id).join(Experiment).where(*admitted)
        statement = statement.where(_by_walking(Run.round_id).in_(rounds))
    return statement.where(visible())


def _is_on(platform: str, *, joined: bool) -> ColumnElement[bool]:
    """Of a run: whether it is of the platform with this key."""
    of_slug = select(Platform.id).where(Platform.slug == slug_of(platform))
    return _by_walking(Run.platform_id).in_(of_slug) & of_source(platform, joined=joined)


def _with_text(text: str) -> CompoundSelect[Any]:
    """The ids of the runs with that in their reason, or that uid, or a uid that begins so."""
    of_reason = select(Run.id).where(Run.status.in_(WITHOUT_RESULT), Run.reason.icontains(text, autoescape=True))
    uid = text.lower()
    own: ColumnElement[bool] = Run.uid == text
    if re.fullmatch("[0-9a-f][0-9a-f-]{3,}", uid):  # all that a minted uid has, and "g" comes after it in any collation
        own |= (Run.uid >= uid) & (Run.uid < uid + "g") & Run.uid.startswith(uid)
    return union_all(of_reason, select(Run.id).where(own))


def _by_walking(column: InstrumentedAttribute[Any]) -> ColumnElement[Any]:
    """The column as an expression, which no index has, so that a planner without statistics does not leave the walk."""
    return func.coalesce(column, column)


# Emulated runs show no time; nor does one without a result, which may have stopped half-way.
_SHOWS_TIME = (Run.evidence != "emulated") & (Run.status == "ok")

_KEYS: dict[Order, ColumnElement[Any]] = {
    "started": _by_walking(Run.started_at_utc),
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
