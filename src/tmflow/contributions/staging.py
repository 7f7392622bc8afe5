"""Stages bundles in the quarantine: verified, and stored completely or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from sqlalchemy import URL, Connection, RowMapping, delete, func, insert, select

from tmflow.base.clock import utc_text
from tmflow.base.errors import BadInput
from tmflow.base.files import writing
from tmflow.base.text import one_line, several
from tmflow.bundle import format
from tmflow.bundle.format import Refused
from tmflow.bundle.problems import Problem, Report
from tmflow.bundle.reader import open_bundle, open_file
from tmflow.bundle.verify import check_files, verify
from tmflow.contributions import access, overlap
from tmflow.contributions.overlap import Overlap
from tmflow.contributions.quarantine import OPEN, RECEIVED, Quarantine, Upload

Outcome = Literal["staged", "known", "refused"]
_CHUNK = 1 << 20
LONGEST_NAME = 200


@dataclass(frozen=True)
class Staged:
    """The outcome of staging a bundle: a message, the report of its verification, and its runs against the database.

    overlap: None for a bundle with errors.
    """

    outcome: Outcome
    message: str
    report: Report
    overlap: Overlap | None


class _Received(NamedTuple):
    file: Path
    sha256: str
    n_bytes: int
    name: str
    by: str


def receive(quarantine: Quarantine, by: str, name: str, n_bytes: int) -> None:
    """Record the start of an upload. Raises BadInput after too many uploads, or if it is too large."""
    with quarantine.begin() as connection:
        refused = access.refusal(quarantine, connection, access.UPLOADS, by)
        if refused is None:
            quarantine.note(connection, "receive", "begun", by, details=f"{name}: {n_bytes} bytes")
    if refused:  # after it was recorded
        raise refused
    with _audited_refusal(quarantine, name, by):
        access.require_size(n_bytes)


def stage(quarantine: Quarantine, source: BinaryIO, name: str, by: str, database: URL) -> Staged:
    """Verify a bundle, count its runs against the database and, if it has no errors, store it for a maintainer.

    A bundle whose runs and probe the database has already need not wait: it is known, and not stored. Raises BadInput
    if the bundle is too large or not a bundle, if the quarantine is full, or if the database cannot be used. Refused
    bundles are not stored.
    """
    with (
        _audited_refusal(quarantine, name, by),
        quarantine.exclusive(),
        _receive(quarantine, source, name, by, limited=True) as received,
    ):
        report, counts = _count_runs(received, database)
        with quarantine.begin() as connection:
            outcome: Outcome
            if counts is None:
                n = sum(problem.severity == "error" for problem in report.problems)
                outcome, message = "refused", f"{several(n, 'error')} in the bundle: it is not stored."
            elif row := _row(connection, report):
                outcome, message = _describe_known(row)
            elif counts.is_known:
                outcome, message = "known", "Nothing is left for a maintainer to accept."
            else:
                access.require_room(connection.scalar(select(func.count()).where(Upload.state.in_(OPEN))) or 0)
                _keep(quarantine, connection, received, report)
                outcome, message = "staged", "The bundle waits for a maintainer, who decides on what is new."
            if counts is not None:
                message = f"{counts.sentence} {message}"
            quarantine.note(connection, "upload", outcome, by, report.identity, f"{name}: {message}")
    return Staged(outcome, message, report, counts)


def keep_conflict(quarantine: Quarantine, file: Path, by: str, reason: str) -> str:
    """Store a bundle that contradicts the database, for comparison; return its identity.

    Raises BadInput if the bundle was rejected earlier.
    """
    with quarantine.exclusive(), open_file(file) as source, _receive(quarantine, source, file.name, by) as received:
        report = _named(verify(received.file), received)
        with quarantine.begin() as connection:
            if (row := _row(connection, report)) and row["state"] == "rejected":
                raise BadInput(f"{reason} Nothing is stored. {_describe_known(row)[1]}")
            identity = _keep(quarantine, connection, received, report, conflict=reason)
            quarantine.note(connection, "import", "conflict", by, identity, reason)
    return identity


@contextmanager
def _audited_refusal(quarantine: Quarantine, name: str, by: str) -> Iterator[None]:
    """Record the reason if an upload is refused."""
    try:
        yield
    except BadInput as error:
        with quarantine.begin() as connection:
            quarantine.note(connection, "upload", "refused", by, details=f"{name}: {error}")
        raise


@contextmanager
def _receive(
    quarantine: Quarantine, source: BinaryIO, name: str, by: str, limited: bool = False
) -> Iterator[_Received]:
    """Receive a source into a temporary file, which is removed at the end unless it was moved."""
    path = quarantine.folder / RECEIVED
    digest, n_bytes = hashlib.sha256(), 0
    try:
        with writing(path), open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
            while chunk := source.read(_CHUNK):
                n_bytes += len(chunk)
                if limited:
                    access.require_size(n_bytes)
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        yield _Received(path, digest.hexdigest(), n_bytes, one_line(name)[:LONGEST_NAME], by)
    finally:
        path.unlink(missing_ok=True)


def _count_runs(received: _Received, database: URL) -> tuple[Report, Overlap | None]:
    """Verify a received bundle and compare its runs with the database, unless it has errors.

    Raises BadInput if it has too many runs.
    """
    report = Report()
    keys: list[overlap.RunKey] = []
    probe = None
    try:
        with open_bundle(received.file) as bundle:
            for of_member in check_files(bundle, report, overlap.prepare_keys):
                access.require_runs(report.runs)
                keys += of_member
            probe = bundle.document(format.PROBE)
    except Refused as error:
        report.add(Problem(str(error)))
    counts = overlap.compare(database, keys, probe) if report.ok else None
    return _named(report, received), counts


def _named(report: Report, received: _Received) -> Report:
    """The report of a received bundle, with the contributor's name of the file."""

    def named(problems: list[Problem]) -> list[Problem]:
        return [problem._replace(text=problem.text.replace(str(received.file), received.name)) for problem in problems]

    return replace(report, errors=named(report.errors), notes=named(report.notes))


def _row(connection: Connection, report: Report) -> RowMapping | None:
    return connection.execute(select(Upload).where(Upload.identity == report.identity)).mappings().one_or_none()


def _describe_known(row: RowMapping) -> tuple[Outcome, str]:
    if row["state"] in OPEN:
        return "known", f"The bundle waits for a maintainer already, since {row['staged_at_utc']}."
    if row["state"] == "accepted":
        return "known", f"The bundle is in the database already, since {row['decided_at_utc']}."
    return "refused", f"The bundle was rejected at {row['decided_at_utc']}: {row['reason']}"


def _keep(
    quarantine: Quarantine,
    connection: Connection,
    received: _Received,
    report: Report,
    conflict: str | None = None,
) -> str:
    """Replace the row of a bundle, then store its file: a kill leaves at most a file without a row."""
    assert report.identity is not None  # a report that is ok has one
    at = utc_text(quarantine.now())
    decided = {"state": "conflict", "decided_at_utc": at, "decided_by": received.by, "reason": conflict}
    row = {
        "identity": report.identity,
        "file_sha256": received.sha256,
        "file_bytes": received.n_bytes,
        "name": received.name,
        "staged_at_utc": at,
        "staged_by": received.by,
        "state": "waiting",
        "report_json": json.dumps(report.as_json()),
        **(decided if conflict else {}),
    }
    connection.execute(delete(Upload).where(Upload.identity == report.identity))
    connection.execute(insert(Upload), [row])
    with writing(quarantine.folder):
        received.file.replace(quarantine.file(report.identity))
        handle = os.open(quarantine.folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return report.identity
