"""New runs into their tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from pydantic import BaseModel
from sqlalchemy import Connection, func, insert, select

from tmflow.errors import BadInput
from tmflow.runner import runfile
from tmflow.store import models, once, rows
from tmflow.store.incoming import IncomingRun
from tmflow.store.references import reference_rows
from tmflow.store.rows import Row

# Lists of a run whose entries have a column for each field.
_DETAILS: dict[str, tuple[type[models.Base], type[BaseModel]]] = {
    "curve": (models.CurvePoint, runfile.CurvePoint),
    "counters": (models.Counters, runfile.Counters),
    "staleness": (models.Staleness, runfile.Staleness),
    "retries": (models.Retries, runfile.Retries),
    "reads": (models.VariableRead, runfile.Reads),
    "lost": (models.LostUpdate, runfile.Lost),
}


def insert_runs(connection: Connection, incoming: Sequence[IncomingRun], file_ids: Sequence[int]) -> None:
    """Insert runs that are not stored yet, each from the run file with that id.

    Raises BadInput if a point of a round has a run already.
    """
    if not incoming:
        return
    references = reference_rows(connection, incoming)
    _require_vacant(connection, incoming, references)
    run_rows = [
        rows.run_row(item.run, item.content_sha256) | refers | {"run_file_id": file_id}
        for item, refers, file_id in zip(incoming, references, file_ids, strict=True)
    ]
    once.insert_rows(connection, models.Run, list(run_rows[0]), [tuple(row.values()) for row in run_rows])
    stored = select(models.Run.uid, models.Run.id).where(models.Run.uid.in_({item.run.uid for item in incoming}))
    id_of = dict(connection.execute(stored).tuples().all())
    runs = [(id_of[item.run.uid], item.run) for item in incoming]
    for name, (model, part) in _DETAILS.items():
        fields = list(part.model_fields)
        of = itemgetter(*fields)
        its_rows = [(id_, *of(vars(entry))) for id_, run in runs for entry in getattr(run, name)]
        once.insert_rows(connection, model, ["run_id", *fields], its_rows)
    fused = [(id_, variable) for id_, run in runs for variable in run.fused]
    once.insert_rows(connection, models.FusedUpdate, ["run_id", "variable"], fused)
    _insert_aborts(connection, runs)


def roll_up_aborts(connection: Connection, file_ids: Sequence[int]) -> None:
    """Sum the aborts of the runs of these files over workers and variables."""
    thread, run = models.ThreadAbort, models.Run
    for chunk in once.chunks(file_ids):
        sums = (
            select(thread.run_id, thread.reason_id, func.sum(thread.n))
            .join(run, run.id == thread.run_id)
            .where(run.run_file_id.in_(chunk))
            .group_by(thread.run_id, thread.reason_id)
        )
        connection.execute(insert(models.RunAbort).from_select(["run_id", "reason_id", "n"], sums))


def _require_vacant(connection: Connection, incoming: Sequence[IncomingRun], references: Sequence[Row]) -> None:
    run = models.Run
    stored = select(run.round_id, run.spec_id, run.uid).where(run.round_id.in_({row["round_id"] for row in references}))
    taken = {(round_id, spec_id): uid for round_id, spec_id, uid in connection.execute(stored)}
    for item, row in zip(incoming, references, strict=True):
        holder = taken.setdefault((row["round_id"], row["spec_id"]), item.run.uid)
        if holder != item.run.uid:
            raise BadInput(
                f"{item.where}: run {item.run.uid} has the campaign, experiment, round and spec of run {holder}; "
                "a point is run once in a round."
            )


def _insert_aborts(connection: Connection, runs: Iterable[tuple[int, runfile.Run]]) -> None:
    key = ["mechanism", "raw_code", "family"]
    reason_of = itemgetter(*key)
    aborts = [(id_, vars(abort)) for id_, run in runs for abort in run.aborts]
    reasons = list(dict.fromkeys(reason_of(abort) for _, abort in aborts))
    ids = once.ids(connection, models.AbortReason, key, [dict(zip(key, reason, strict=True)) for reason in reasons])
    id_of: dict[Any, int] = dict(zip(reasons, ids, strict=True))
    once.insert_rows(
        connection,
        models.ThreadAbort,
        ["run_id", "worker", "variable", "reason_id", "n"],
        [(run_id, abort["worker"], abort["variable"], id_of[reason_of(abort)], abort["n"]) for run_id, abort in aborts],
    )
