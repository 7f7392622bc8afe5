"""How often somebody may try something, counted from the audit: so a restart forgives nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from tmflow.base.clock import utc_text
from tmflow.base.errors import BadInput
from tmflow.contributions.quarantine import Quarantine
from tmflow.contributions.tables import Action, Audit

EVERYBODY = "everybody"


class Rate(NamedTuple):
    """At most so many of an action with that outcome, of one address and of all, within a time; `what` in words."""

    what: str
    action: Action
    outcome: str
    of_one: int
    of_all: int
    minutes: int


WRONG_TOKENS = Rate("wrong tokens", "token", "wrong", of_one=5, of_all=50, minutes=15)
UPLOADS = Rate("uploads", "receive", "begun", of_one=10, of_all=60, minutes=60)


def refusal(quarantine: Quarantine, connection: Connection, rate: Rate, by: str) -> BadInput | None:
    """What to tell whoever it is that has tried too often, or while all together have; None of others.

    It is written down once in that time for each, so that who goes on trying fills no disk.
    """
    since = utc_text(quarantine.now() - timedelta(minutes=rate.minutes))
    tried = select(func.count()).where(Audit.action == rate.action, Audit.outcome == rate.outcome, Audit.at_utc > since)
    if connection.execute(tried).scalar_one() >= rate.of_all:
        whose, limit = EVERYBODY, rate.of_all
    elif connection.execute(tried.where(Audit.by == by)).scalar_one() >= rate.of_one:
        whose, limit = by, rate.of_one
    else:
        return None
    told = select(Audit.id).where(
        Audit.action == "limit", Audit.outcome == rate.what, Audit.by == whose, Audit.at_utc > since
    )
    if connection.scalar(told) is None:
        quarantine.note(connection, "limit", rate.what, whose)
    of_whom = "in all" if whose == EVERYBODY else f"from {by}"
    return BadInput(
        f"there were too many {rate.what} {of_whom}: at most {limit} in {rate.minutes} minutes; try again later."
    )
