"""New runs into their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import Connection, func, insert, select

from tmflow.errors import BadInput
from tmflow.runner.runfile import Run
from tmflow.store import models, once, rows
from tmflow.store.incoming import IncomingRun
from tmflow.store.references import reference_rows
from tmflow.store.rows import Row

_DETAILS: Sequence[tuple[type[models.Base], Callable[[Run], Iterable[Row]]]] = (
    (models.CurvePoint, rows.curve_rows),
    (models.Counters, rows.counters_rows),
    (models.Staleness, rows.staleness_rows),
    (models.Retries, rows.retries_rows),
    (models.VariableRead, rows.reads_rows),
    (models.LostUpdate, rows.lost_rows),
    (models.FusedUpdate, rows.fused_rows),
)


def insert_runs(connection: Connection, incoming: Sequence[IncomingRun], file_ids: Sequence[int]) -> None:
    """Insert runs that are not stored yet, each from the run file with that id.

    Raises BadInput if a point of a round has a run already.
    """
    runs = [item.run for item in incoming]
    references = reference_rows(connection, runs)
    _require_vacant(connection, incoming, references)
    run_rows = [
        rows.run_row(item.run, item.content_sha256) | refers | {"run_file_id": file_id}
        for item, refers, file_id in zip(incoming, references, file_ids, strict=True)
    ]
    run_ids = once.ids(connection, models.Run, ["uid"], run_rows)
    for model, rows_of in _DETAILS:
        _insert(
            connection,
            model,
            [{"run_id": id_} | r for id_, run in zip(run_ids, runs, strict=True) for r in rows_of(run)],
        )
    _insert_aborts(connection, runs, run_ids)


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


def _insert_aborts(connection: Connection, runs: Sequence[Run], run_ids: Sequence[int]) -> None:
    aborts = [(run_id, abort) for run_id, run in zip(run_ids, runs, strict=True) for abort in run.aborts]
    key = ["mechanism", "raw_code", "family"]
    reasons = once.ids(connection, models.AbortReason, key, [abort.model_dump(include=set(key)) for _, abort in aborts])
    thread_rows = [
        {"run_id": run_id, "worker": abort.worker, "variable": abort.variable, "reason_id": reason, "n": abort.n}
        for (run_id, abort), reason in zip(aborts, reasons, strict=True)
    ]
    _insert(connection, models.ThreadAbort, thread_rows)


def _insert(connection: Connection, model: type[models.Base], new: Sequence[Row]) -> None:
    if new:
        connection.execute(insert(model), new)
