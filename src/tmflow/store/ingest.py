"""Run files into the database. Nothing else writes runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, select
from sqlalchemy.exc import DataError

from tmflow.clock import utc_now
from tmflow.errors import BadInput
from tmflow.store import models, once, schema
from tmflow.store.address import shown
from tmflow.store.engine import open_reader, open_writer
from tmflow.store.explain import explain_errors
from tmflow.store.incoming import IncomingFile, IncomingRun, read_files
from tmflow.store.insert import insert_runs


@dataclass(frozen=True)
class IngestReport:
    """The run files given, how many of them were known already, and the same of their runs."""

    files: int
    files_known: int
    runs_new: int
    runs_known: int


def ingest(url: URL, paths: Sequence[Path]) -> IngestReport:
    """Store the runs of the files that the database does not hold yet; all of them or, on an error, none.

    Makes the database if there is none. Raises BadInput for a bad file (before anything is written), for a run that
    contradicts what is stored or another file, and for a database that cannot be used.
    """
    with _no_search_for_garbage():
        return _ingest(url, paths)


def _ingest(url: URL, paths: Sequence[Path]) -> IngestReport:
    is_there = schema.exists(url)
    incoming = read_files(paths, known=_known_files(url) if is_there else ())
    if not is_there:
        schema.upgrade(url)
    with explain_errors(url), open_writer(url).begin() as connection:
        try:
            return _store(connection, incoming)
        except (OverflowError, DataError) as error:
            reason = str(error.orig if isinstance(error, DataError) else error).splitlines()[0]
            raise BadInput(f"a value of the run files does not fit {shown(url)}: {reason}.") from error


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """Runs are many objects that all are needed: to look for garbage among them takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _known_files(url: URL) -> set[str]:
    with explain_errors(url), open_reader(url).connect() as connection:
        return set(connection.scalars(select(models.RunFile.sha256)))


def _store(connection: Connection, incoming: Sequence[IncomingFile]) -> IngestReport:
    n_runs = {file.sha256: len(file.runs) for file in incoming}
    stored = dict(connection.execute(select(models.RunFile.sha256, models.RunFile.n_runs)).tuples().all())
    fresh = {file.sha256: file for file in incoming if file.sha256 not in stored}
    now = utc_now()
    file_rows = [
        {"sha256": file.sha256, "name": file.name, "ingested_at_utc": now, "n_runs": len(file.runs)}
        for file in fresh.values()
    ]
    file_ids = dict(zip(fresh, once.ids(connection, models.RunFile, ["sha256"], file_rows), strict=True))
    runs_new = 0
    for chunk in once.chunks(run for file in fresh.values() for run in file.runs):
        new = _unknown(connection, chunk)
        insert_runs(connection, new, [file_ids[item.file_sha256] for item in new])
        runs_new += len(new)
    return IngestReport(
        files=len(incoming),
        files_known=len(incoming) - len(fresh),
        runs_new=runs_new,
        runs_known=sum((n_runs | stored)[file.sha256] for file in incoming) - runs_new,
    )


def _unknown(connection: Connection, incoming: Sequence[IncomingRun]) -> list[IncomingRun]:
    """Those that are not stored yet, each once. Raises BadInput if a uid has two contents."""
    run, file = models.Run, models.RunFile
    uids = {item.uid for item in incoming}
    stored = select(run.uid, run.content_sha256, file.name).join(file).where(run.uid.in_(uids))
    seen = {uid: (content, f"run file {name}, stored") for uid, content, name in connection.execute(stored)}
    unknown = []
    for item in incoming:
        if item.uid not in seen:
            seen[item.uid] = item.content_sha256, item.where
            unknown.append(item)
        content, where = seen[item.uid]
        if content != item.content_sha256:
            raise BadInput(f"{item.where}: run {item.uid} differs from the run of the same uid in {where}.")
    return unknown
