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

from sqlalchemy import Connection, RowMapping, delete, func, insert, select

from tmflow.base.clock import utc_text
from tmflow.base.errors import BadInput
from tmflow.base.files import writing
from tmflow.base.text import one_line, several
from tmflow.bundle.problems import Problem, Report
from tmflow.bundle.reader import open_file
from tmflow.bundle.verify import verify
from tmflow.contributions import access
from tmflow.contributions.quarantine import OPEN, RECEIVED, Quarantine, Upload

Outcome = Literal["staged", "known", "refused"]
_CHUNK = 1 << 20
LONGEST_NAME = 200


@dataclass(frozen=True)
class Staged:
    """The outcome of staging a bundle: a message, and the report of its verification."""

    outcome: Outcome
    message: str
    report: Report


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


def stage(quarantine: Quarantine, source: BinaryIO, name: str, by: str) -> Staged:
    """Verify a bundle and, if it has no errors, store it until a maintainer decides.

    Raises BadInput if it is too large or not a bundle, or if the quarantine is full. Refused bundles are not stored.
    """
    with (
        _audited_refusal(quarantine, name, by),
        quarantine.exclusive(),
        _receive(quarantine, source, name, by, limited=True) as received,
    ):
        report = _verify(received)
        access.require_runs(report.runs)
        with quarantine.begin() as connection:
            if not report.ok:
                n = sum(problem.severity == "error" for problem in report.problems)
                staged = Staged("refused", f"{several(n, 'error')} in the bundle: it is not stored.", report)
            elif row := _row(connection, report):
                staged = Staged(*_describe_known(row), report)
            else:
                access.require_room(connection.scalar(select(func.count()).where(Upload.state.in_(OPEN))) or 0)
                _keep(quarantine, connection, received, report)
                waits = "The bundle waits for a maintainer; it is not in the database yet."
                staged = Staged("staged", waits, report)
            quarantine.note(connection, "upload", staged.outcome, by, report.identity, f"{name}: {staged.message}")
    return staged


def keep_conflict(quarantine: Quarantine, file: Path, by: str, reason: str) -> str:
    """Store a bundle that contradicts the database, for comparison; return its identity.

    Raises BadInput if the bundle was rejected earlier.
    """
    with quarantine.exclusive(), open_file(file) as source, _receive(quarantine, source, file.name, by) as received:
        report = _verify(received)
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


def _verify(received: _Received) -> Report:
    """Verify a received bundle; the report uses the contributor's name of the file."""
    report = verify(received.file)

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
