"""A bundle into the quarantine: checked, and kept whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from sqlalchemy import Connection, RowMapping, delete, func, insert, select

from tmflow.base import escaping
from tmflow.base.clock import utc_text
from tmflow.base.errors import BadInput
from tmflow.base.files import writing
from tmflow.base.text import several
from tmflow.bundle.problems import Report
from tmflow.bundle.verify import verify
from tmflow.contributions import access
from tmflow.contributions.quarantine import OPEN, RECEIVED, Quarantine, Upload

Outcome = Literal["staged", "known", "refused"]
_CHUNK = 1 << 20
LONGEST_NAME = 200


@dataclass(frozen=True)
class Staged:
    """What became of a bundle, in words, and what the check found."""

    outcome: Outcome
    said: str
    report: Report


class _Received(NamedTuple):
    file: Path
    sha256: str
    n_bytes: int
    name: str
    by: str


def receive(quarantine: Quarantine, by: str, name: str, n_bytes: int) -> None:
    """Note that an upload begins. Raises BadInput after too many of them, or where it is too large."""
    with quarantine.begin() as connection:
        refused = access.refusal(quarantine, connection, access.UPLOADS, by)
        if refused is None:
            quarantine.note(connection, "receive", "begun", by, details=f"{name}: {n_bytes} bytes")
    if refused:  # once it is written down
        raise refused
    with _noted(quarantine, name, by):
        access.require_size(n_bytes)


def stage(quarantine: Quarantine, source: BinaryIO, name: str, by: str) -> Staged:
    """Take a bundle in, to wait for a maintainer, if nothing is wrong with it.

    Raises BadInput for one that is no bundle or too large, and while there is no room. What is refused is not kept.
    """
    with (
        _noted(quarantine, name, by),
        quarantine.alone(),
        _received(quarantine, source, name, by, limited=True) as received,
    ):
        report = _checked(received)
        access.require_runs(report.runs)
        with quarantine.begin() as connection:
            staged = _staged(quarantine, connection, received, report)
            quarantine.note(connection, "upload", staged.outcome, by, report.identity, f"{name}: {staged.said}")
    return staged


def keep_conflict(quarantine: Quarantine, file: Path, by: str, reason: str) -> str:
    """Keep a bundle that the database contradicts, so that both can be compared; returns its identity.

    Raises BadInput for one that was rejected: it is not kept again.
    """
    with quarantine.alone(), file.open("rb") as source, _received(quarantine, source, file.name, by) as received:
        report = _checked(received)
        with quarantine.begin() as connection:
            if (row := _row(connection, report)) and row["state"] == "rejected":
                raise BadInput(f"{reason} Nothing is stored. {_known(row)[1]}")
            identity = _keep(quarantine, connection, received, report, conflict=reason)
            quarantine.note(connection, "import", "conflict", by, identity, reason)
    return identity


@contextmanager
def _noted(quarantine: Quarantine, name: str, by: str) -> Iterator[None]:
    """Write down why an upload is refused."""
    try:
        yield
    except BadInput as error:
        with quarantine.begin() as connection:
            quarantine.note(connection, "upload", "refused", by, details=f"{name}: {error}")
        raise


@contextmanager
def _received(
    quarantine: Quarantine, source: BinaryIO, name: str, by: str, limited: bool = False
) -> Iterator[_Received]:
    """The bytes of a source, on the disk, in a file that goes if it is not moved."""
    path = quarantine.folder / RECEIVED
    digest, n_bytes = hashlib.sha256(), 0
    try:
        with writing(path), open(path, "xb", opener=_alone) as file:
            while chunk := source.read(_CHUNK):
                n_bytes += len(chunk)
                if limited:
                    access.require_size(n_bytes)
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        yield _Received(path, digest.hexdigest(), n_bytes, escaping.line(name)[:LONGEST_NAME], by)
    finally:
        path.unlink(missing_ok=True)


def _alone(path: str, flags: int) -> int:
    """Open a new file that others cannot read."""
    return os.open(path, flags, 0o600)


def _checked(received: _Received) -> Report:
    """What is wrong with it, by the name that whoever brought it knows."""
    report = verify(received.file)
    named = [
        problem._replace(text=problem.text.replace(str(received.file), received.name)) for problem in report.problems
    ]
    return replace(report, problems=named)


def _staged(quarantine: Quarantine, connection: Connection, received: _Received, report: Report) -> Staged:
    if not report.ok:
        n = sum(problem.severity == "error" for problem in report.problems)
        return Staged("refused", f"{several(n, 'error')} in the bundle: nothing of it is kept.", report)
    if row := _row(connection, report):
        return Staged(*_known(row), report)
    access.require_room(connection.scalar(select(func.count()).where(Upload.state.in_(OPEN))) or 0)
    _keep(quarantine, connection, received, report)
    return Staged("staged", "The bundle waits for a maintainer; nothing of it is in the database yet.", report)


def _row(connection: Connection, report: Report) -> RowMapping | None:
    return connection.execute(select(Upload).where(Upload.identity == report.identity)).mappings().one_or_none()


def _known(row: RowMapping) -> tuple[Outcome, str]:
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
    """Its row in place of one that there may be, and its file, so that a kill leaves a file without a row at most."""
    assert report.identity is not None  # a report without one is not ok
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
