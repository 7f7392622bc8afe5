"""What a maintainer makes of a bundle: a comparison with the database, then into it, or away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Engine, RowMapping, select, update

from tmflow.base import escaping
from tmflow.base.canonical_json import leaves
from tmflow.base.clock import utc_text
from tmflow.base.errors import LONGEST, BadInput
from tmflow.bundle.reader import open_bundle
from tmflow.contributions.importer import SHORTEST, ImportReport, import_bundle
from tmflow.contributions.quarantine import OPEN, Action, Quarantine, State, Upload
from tmflow.runfile.record import Run
from tmflow.runfile.validate import line_reader
from tmflow.store import models, run_detail
from tmflow.store.dedup import chunks
from tmflow.store.frames import fetch
from tmflow.store.ingest import Conflict
from tmflow.store.rows import read_line

IDENTITY = re.compile(f"[0-9a-f]{{{SHORTEST},64}}")  # with fewer digits, a slip of the keyboard names another bundle


def accept(quarantine: Quarantine, url: URL, identity: str, by: str) -> ImportReport:
    """Store the bundle in the database at `url`. A kill in between leaves it to be accepted again, which adds nothing.

    Raises Conflict where the database has other contents of its runs, after which the bundle can be compared, and
    BadInput where the database refuses it otherwise.
    """
    with quarantine.alone():
        upload = require_open(quarantine, identity)
        whole = upload["identity"]
        try:
            report = import_bundle(url, quarantine.file(whole), upload["name"], whole)
        except Conflict as error:
            _name(error, quarantine, upload)
            _decide(quarantine, whole, "accept", "conflict", by, str(error))
            raise
        except BadInput as error:
            _name(error, quarantine, upload)
            with quarantine.begin() as connection:
                quarantine.note(connection, "accept", "refused", by, whole, str(error))
            raise
        _decide(quarantine, whole, "accept", "accepted", by)
    return report


def reject(quarantine: Quarantine, identity: str, reason: str, by: str) -> str:
    """Turn the bundle away: its file goes, and it is not taken again. Returns its whole identity."""
    if not reason.strip():
        raise BadInput("a bundle is rejected for a reason, and none is given; it is shown to whoever brings it again.")
    with quarantine.alone():
        whole: str = require_open(quarantine, identity)["identity"]
        _decide(quarantine, whole, "reject", "rejected", by, reason)
        quarantine.file(whole).unlink(missing_ok=True)
    return whole


def require_open(quarantine: Quarantine, identity: str) -> RowMapping:
    """The upload whose identity begins so. Raises BadInput if there is not one, or it is decided."""
    if not IDENTITY.fullmatch(identity):
        raise BadInput(
            f"identity is '{escaping.line(identity)[:LONGEST]}', but should be that of a waiting bundle, or its first "
            f"{SHORTEST} hex digits or more; `tmflow bundle waiting` lists them."
        )
    with quarantine.begin() as connection:
        found = connection.execute(select(Upload).where(Upload.identity.startswith(identity, autoescape=True)))
        rows = found.mappings().all()
    if len(rows) != 1:
        raise BadInput(
            f"{len(rows) or 'no'} bundles of the quarantine have an identity that begins with '{identity}'; "
            "`tmflow bundle waiting` lists them."
        )
    if rows[0]["state"] not in OPEN:
        raise BadInput(f"bundle {rows[0]['identity']} was {rows[0]['state']} at {rows[0]['decided_at_utc']} already.")
    return rows[0]


def _name(error: BadInput, quarantine: Quarantine, upload: RowMapping) -> None:
    """Call the bundle what its bringer calls it: pages show the error, and need not tell where the quarantine is."""
    error.args = (str(error).replace(str(quarantine.file(upload["identity"])), upload["name"]),)


def _decide(
    quarantine: Quarantine, identity: str, action: Action, state: State, by: str, reason: str | None = None
) -> None:
    decision = {"state": state, "decided_at_utc": utc_text(quarantine.now()), "decided_by": by, "reason": reason}
    with quarantine.begin() as connection:
        connection.execute(update(Upload).where(Upload.identity == identity).values(**decision))
        quarantine.note(connection, action, state, by, identity, reason)


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
