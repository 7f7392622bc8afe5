"""Runs that a bundle and the database tell differently: both versions, where they differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Engine, select

from tmflow.base.errors import BadInput
from tmflow.base.leaves import leaves
from tmflow.bundle.reader import open_bundle
from tmflow.runfile.record import Run
from tmflow.runfile.validate import line_reader
from tmflow.store import models, run_detail
from tmflow.store.dedup import chunks
from tmflow.store.frames import fetch
from tmflow.store.incoming import read_line

MISSING = "(nothing)"
_ORDINARY = 20_000  # characters


class Difference(NamedTuple):
    """A field of a run, and its two values as text."""

    field: str
    bundle: str
    database: str


class Compared(NamedTuple):
    """A run that is stored with another content: where the two differ, and with what the stored one was withdrawn."""

    uid: str
    withdrawn: str | None
    fields: list[Difference]


def differences(database: Engine, file: Path, uid: str | None = None) -> Iterator[Compared]:
    """Each run of the bundle that is stored with another content, or that one alone.

    Raises BadInput where the bundle lacks the run that is asked for.
    """
    found = False
    for batch in chunks(_lines(file), _weight):
        said = {run_uid: (sha256, line) for run_uid, sha256, line in batch if uid in (None, run_uid)}
        found |= bool(said)
        run = models.Run
        known = select(run.uid, run.content_sha256).where(run.uid.in_(said))
        for run_uid, sha256 in fetch(database, known) if said else ():
            if said[run_uid][0] != sha256:
                fields = _between(said[run_uid][1], run_detail.withdrawn_or_not(database, run_uid))
                yield Compared(run_uid, run_detail.withdrawn(database, run_uid), fields)
    if uid is not None and not found:
        raise BadInput(f"the bundle has no run {uid}.")


def _lines(file: Path) -> Iterator[tuple[str, str, str]]:
    """Of each line of the bundle: uid, hash of the content, and the line."""
    reader = line_reader()
    with open_bundle(file) as bundle:
        for member in bundle.run_members():
            for where, line in bundle.lines(member):
                run = read_line(where, line, "", reader)
                yield run.uid, run.content_sha256, line


def _weight(run: tuple[str, str, str]) -> int:
    """In how many ordinary lines there is as much."""
    return 1 + len(run[2]) // _ORDINARY


def _between(line: str, run: dict[str, Any]) -> list[Difference]:
    """A run as a line of the bundle tells it, and as the database does."""
    told = Run.model_validate_json(line).model_dump(mode="json")
    kept = Run.model_validate({name: value for name, value in run.items() if name != "stored"}).model_dump(mode="json")
    sides = [dict(leaves(side)) for side in (told, kept)]
    return [
        Difference(field, *(_text(side, field) for side in sides))
        for field in sorted({*sides[0], *sides[1]})
        if sides[0].get(field, MISSING) != sides[1].get(field, MISSING)
    ]


def _text(side: dict[str, Any], field: str) -> str:
    return str(side[field]) if field in side else MISSING
