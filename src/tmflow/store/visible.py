"""Which runs are shown: all but those of a contribution that is withdrawn."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select

from tmflow.store.models import Contribution, Run

_WITHDRAWN = select(Contribution.id).where(Contribution.withdrawn_at_utc.is_not(None))


def visible() -> ColumnElement[bool]:
    """Of a run; for every question that reads one, but those of `db check` and of what is stored at all.

    Most runs are not contributed, which is said first: a search asks it of each.
    """
    return Run.contribution_id.is_(None) | Run.contribution_id.not_in(_WITHDRAWN)
