"""Run files on their way into the database: read, and as rows of its tables."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tmflow.base.errors import BadInput
from tmflow.runfile import content_hash, lines
from tmflow.runfile.reader import Reader, ReadRun, Shared
from tmflow.runfile.record import Backend
from tmflow.runfile.validate import line_reader, read_run
from tmflow.store.dedup import Key
from tmflow.store.details import details
from tmflow.store.rows import Row, run_row


class IncomingRun(NamedTuple):
    """A run, checked, as rows of the tables; where it came from, and what it shares with others."""

    where: str
    file_sha256: str
    uid: str
    content_sha256: str
    origin: Shared
    spec: Shared
    backend: Backend | None
    round: int
    order_seed: int
    row: Row
    details: dict[str, list[Key]]


@dataclass(frozen=True)
class IncomingFile:
    """A run file by its name and hash; its runs are not read if the database knows the hash."""

    name: str
    sha256: str
    runs: Sequence[IncomingRun]


def read_files(paths: Iterable[Path], known: Container[str]) -> list[IncomingFile]:
    """Read and check the run files. Raises BadInput naming file, line and field of the first fault."""
    reader = line_reader()
    return [_read_file(path, known, reader) for path in paths]


def _read_file(path: Path, known: Container[str], reader: Reader) -> IncomingFile:
    data = lines.contents(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 in known:
        return IncomingFile(path.name, sha256, ())
    runs = [read_line(where, line, sha256, reader) for where, line in lines.lines(path, data)]
    if not runs:
        raise BadInput(f"run file {path} is empty; a run file holds one run or more, each on a line.")
    return IncomingFile(path.name, sha256, runs)


def read_line(where: str, line: str, file_sha256: str, reader: Reader) -> IncomingRun:
    """Check one line of a run file; `where` names it in the errors. Raises BadInput for the first fault."""
    return rows_of(read_run(where, line, reader), where, file_sha256)


def rows_of(read: ReadRun, where: str, file_sha256: str) -> IncomingRun:
    """A run that was read as rows."""
    run, lists, origin, spec = read
    spelt = {name: content_hash.listed(entries) for name, entries in lists.items()}
    sha256 = content_hash.sha256(run, spelt | origin.spelt | spec.spelt)
    return IncomingRun(
        where=where,
        file_sha256=file_sha256,
        uid=run.uid,
        content_sha256=sha256,
        origin=origin,
        spec=spec,
        backend=run.backend,
        round=run.round,
        order_seed=run.order_seed,
        row=run_row(run, sha256),
        details=details(lists, run.fused),
    )


def weight(run: IncomingRun) -> int:
    """In how many ordinary runs there is as much: one of a thousand threads has thousands of entries."""
    return 1 + sum(map(len, run.details.values())) // 200
