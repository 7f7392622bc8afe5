"""The number of runs of each round, counted at ingest so that no page has to count runs."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Select, delete, func, insert, select

from tmflow.store import dedup
from tmflow.store.frames import visible
from tmflow.store.models import RoundTally, Run

SOURCE = func.coalesce(Run.contribution_id, 0).label("contribution_id")
KEY = (Run.round_id, Run.platform_id, SOURCE, Run.evidence, Run.status)
COUNTED: Select[tuple[int, int, int, str, str, int, str]] = (
    select(*KEY, func.count().label("n_runs"), func.max(Run.started_at_utc).label("newest_run_at_utc"))
    .where(visible())
    .group_by(*KEY)
)
"""The correct rows of RoundTally: counts of the visible runs."""


def count_again(connection: Connection, round_ids: Iterable[int]) -> None:
    """Recompute the tally of these rounds."""
    for chunk in dedup.chunks(round_ids):
        connection.execute(delete(RoundTally).where(RoundTally.round_id.in_(chunk)))
        counted = COUNTED.where(Run.round_id.in_(chunk))
        connection.execute(insert(RoundTally).from_select(dedup.columns(RoundTally), counted))
