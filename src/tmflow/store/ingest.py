"""Run files into the database. Runs come into it here, and with a contribution, which is stored by the same path."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, select

from tmflow.store import models, schema
from tmflow.store.engine import open_reader
from tmflow.store.explain import explain_errors
from tmflow.store.incoming import IncomingFile, read_files
from tmflow.store.storing import FileToStore, no_search_for_garbage, store_runs, storing


@dataclass(frozen=True)
class IngestReport:
    """The run files given, how many of them were known already, and the same of their runs."""

    files: int
    files_known: int
    runs_new: int
    runs_known: int


def ingest(url: URL, paths: Sequence[Path]) -> IngestReport:
    """Store the runs of the files that the database does not hold yet; all of them or, on an error, none.

    Makes the database if there is none. Raises BadInput for a bad file (before anything is written), Conflict for runs
    that contradict what is stored or another file, and BadInput for a database that cannot be used.
    """
    with no_search_for_garbage():
        is_there = schema.exists(url)
        incoming = read_files(paths, known=_known_files(url) if is_there else ())
        if not is_there:
            schema.upgrade(url)
        with storing(url, "the run files") as connection:
            return _store(connection, incoming)


def not_stored(url: URL, paths: Sequence[Path]) -> list[Path]:
    """Those of the run files that the database does not hold as they are. Raises as `ingest` does."""
    known = _known_files(url) if schema.exists(url) else set()
    return [path for path in paths if hashlib.sha256(path.read_bytes()).hexdigest() not in known]


def _known_files(url: URL) -> set[str]:
    with explain_errors(url), open_reader(url).connect() as connection:
        return set(connection.scalars(select(models.RunFile.sha256)))


def _store(connection: Connection, incoming: Sequence[IncomingFile]) -> IngestReport:
    files = [FileToStore(file.sha256, file.name, len(file.runs)) for file in incoming]
    stored = store_runs(connection, files, (run for file in incoming for run in file.runs))
    return IngestReport(
        files=len(incoming),
        files_known=len(incoming) - stored.files_new,
        runs_new=stored.runs_new,
        runs_known=stored.runs_in_files - stored.runs_new,
    )
