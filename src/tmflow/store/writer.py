"""New runs into their tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

from sqlalchemy import Connection, select

from tmflow.base.errors import BadInput
from tmflow.store import dedup, models
from tmflow.store.dedup import Key
from tmflow.store.details import REASON
from tmflow.store.incoming import IncomingRun
from tmflow.store.references import reference_rows
from tmflow.store.rows import Row


def insert_runs(
    connection: Connection, incoming: Sequence[IncomingRun], file_ids: Sequence[int], contribution_id: int | None
) -> set[int]:
    """Insert runs that are not stored yet, each from the run file with that id; returns the ids of their rounds.

    Raises BadInput if a point of a round has a run already.
    """
    if not incoming:
        return set()
    references = reference_rows(connection, incoming)
    _require_vacant(connection, incoming, references)
    whole = itemgetter(*dedup.columns(models.Run))
    run_rows = [
        whole({**item.row, **refers, "run_file_id": file_id, "contribution_id": contribution_id})
        for item, refers, file_id in zip(incoming, references, file_ids, strict=True)
    ]
    dedup.insert_rows(connection, models.Run, run_rows)
    stored = select(models.Run.uid, models.Run.id).where(models.Run.uid.in_({item.uid for item in incoming}))
    id_of = dict(connection.execute(stored).tuples().all())
    run_ids = [id_of[item.uid] for item in incoming]
    for name, model in models.DETAILS.items():
        dedup.insert_rows(connection, model, _details(name, run_ids, incoming))
    dedup.insert_rows(connection, models.FusedUpdate, _details("fused", run_ids, incoming))
    _insert_aborts(connection, _details("aborts", run_ids, incoming))
    return {row["round_id"] for row in references}


def _details(name: str, run_ids: Sequence[int], incoming: Sequence[IncomingRun]) -> list[Key]:
    """The rows of that list of each run, which begin with the run."""
    return [
        (run_id, *row) for run_id, item in zip(run_ids, incoming, strict=True) for row in item.details.get(name, ())
    ]


def _require_vacant(connection: Connection, incoming: Sequence[IncomingRun], references: Sequence[Row]) -> None:
    run = models.Run
    stored = select(run.round_id, run.spec_id, run.uid).where(run.round_id.in_({row["round_id"] for row in references}))
    taken = {(round_id, spec_id): uid for round_id, spec_id, uid in connection.execute(stored)}
    for item, row in zip(incoming, references, strict=True):
        holder = taken.setdefault((row["round_id"], row["spec_id"]), item.uid)
        if holder != item.uid:
            raise BadInput(
                f"{item.where}: run {item.uid} has the campaign, experiment, round and spec of run {holder}; "
                "a point is run once in a round."
            )


def _insert_aborts(connection: Connection, aborts: Sequence[Key]) -> None:
    """Aborts by worker and variable, and their sums of each run."""
    reasons = list(dict.fromkeys((mechanism, code, family) for _, _, _, mechanism, code, family, _ in aborts))
    reason_rows = [dict(zip(REASON, reason, strict=True)) for reason in reasons]
    id_of = dict(zip(reasons, dedup.ids(connection, models.AbortReason, REASON, reason_rows), strict=True))
    rows: list[Key] = []
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for run_id, worker, variable, mechanism, code, family, n in aborts:
        reason_id = id_of[mechanism, code, family]
        rows.append((run_id, worker, variable, reason_id, n))
        sums[run_id, reason_id] += n
    dedup.insert_rows(connection, models.ThreadAbort, rows)
    dedup.insert_rows(connection, models.RunAbort, [(*key, n) for key, n in sums.items()])
