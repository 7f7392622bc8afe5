"""The maintainer's review of a bundle: compare it with the database, accept it, or reject it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Engine, RowMapping, select, update

from tmflow.base.canonical_json import leaves
from tmflow.base.clock import utc_text
from tmflow.base.errors import LONGEST, BadInput
from tmflow.base.text import one_line
from tmflow.bundle.reader import open_bundle
from tmflow.contributions.importer import SHORTEST, ImportReport, import_bundle
from tmflow.contributions.quarantine import OPEN, Action, Quarantine, State, Upload
from tmflow.runfile.reader import Reader
from tmflow.runfile.record import Run
from tmflow.store import models, run_detail
from tmflow.store.frames import fetch
from tmflow.store.ingest import Conflict
from tmflow.store.rows import chunks, read_line

IDENTITY = re.compile(f"[0-9a-f]{{{SHORTEST},64}}")  # with fewer digits, a typing error could name another bundle


def accept(quarantine: Quarantine, url: URL, identity: str, by: str) -> ImportReport:
    """Store a waiting bundle in the database at `url`. After a kill it can be accepted again without duplicates.

    Raises Conflict if the database has its runs with other content (the bundle can then be compared), and BadInput if
    the database refuses it for another reason.
    """
    with quarantine.exclusive():
        upload = require_open(quarantine, identity)
        full_identity = upload["identity"]
        try:
            report = import_bundle(url, quarantine.file(full_identity), upload["name"], full_identity)
        except Conflict as error:
            _hide_path(error, quarantine, upload)
            _decide(quarantine, full_identity, "accept", "conflict", by, str(error))
            raise
        except BadInput as error:
            _hide_path(error, quarantine, upload)
            with quarantine.begin() as connection:
                quarantine.note(connection, "accept", "refused", by, full_identity, str(error))
            raise
        _decide(quarantine, full_identity, "accept", "accepted", by)
    return report


def reject(quarantine: Quarantine, identity: str, reason: str, by: str) -> str:
    """Reject a bundle: remove its file and refuse it from now on. Returns its full identity."""
    if not reason.strip():
        raise BadInput("a rejection needs a reason; it is shown if the bundle is uploaded again.")
    with quarantine.exclusive():
        full_identity: str = require_open(quarantine, identity)["identity"]
        _decide(quarantine, full_identity, "reject", "rejected", by, reason)
        quarantine.file(full_identity).unlink(missing_ok=True)
    return full_identity


def require_open(quarantine: Quarantine, identity: str) -> RowMapping:
    """The open upload whose identity begins with these digits. Raises BadInput unless there is exactly one."""
    if not IDENTITY.fullmatch(identity):
        raise BadInput(
            f"identity is '{one_line(identity)[:LONGEST]}', but should be that of a waiting bundle, or its first "
            f"{SHORTEST} hex digits or more; `tmflow bundle waiting` lists them."
        )
    with quarantine.begin() as connection:
        result = connection.execute(select(Upload).where(Upload.identity.startswith(identity, autoescape=True)))
        rows = result.mappings().all()
    if len(rows) != 1:
        raise BadInput(
            f"{len(rows) or 'no'} bundles of the quarantine have an identity that begins with '{identity}'; "
            "`tmflow bundle waiting` lists them."
        )
    if rows[0]["state"] not in OPEN:
        raise BadInput(f"bundle {rows[0]['identity']} was {rows[0]['state']} at {rows[0]['decided_at_utc']} already.")
    return rows[0]


def _hide_path(error: BadInput, quarantine: Quarantine, upload: RowMapping) -> None:
    """Replace the path of the bundle in an error by its name, because pages show the error."""
    error.args = (str(error).replace(str(quarantine.file(upload["identity"])), upload["name"]),)


def _decide(
    quarantine: Quarantine, identity: str, action: Action, state: State, by: str, reason: str | None = None
) -> None:
    decision = {"state": state, "decided_at_utc": utc_text(quarantine.now()), "decided_by": by, "reason": reason}
    with quarantine.begin() as connection:
        connection.execute(update(Upload).where(Upload.identity == identity).values(**decision))
        quarantine.note(connection, action, state, by, identity, reason)


MISSING = "(nothing)"
_ORDINARY = 20_000  # characters of an ordinary line


class Difference(NamedTuple):
    """A field of a run, and its two values as text."""

    field: str
    bundle: str
    database: str


class RunDifference(NamedTuple):
    """A run that is stored with other content: the differing fields, and the reason if it was withdrawn."""

    uid: str
    withdrawn: str | None
    fields: list[Difference]


def differences(database: Engine, file: Path, uid: str | None = None) -> Iterator[RunDifference]:
    """Yield each run of the bundle that is stored with other content; `uid` restricts them to one run.

    Raises BadInput if the bundle lacks the run `uid`.
    """
    is_in_bundle = False
    for batch in chunks(_lines(file), weight=lambda run: 1 + len(run[2]) // _ORDINARY):
        in_bundle = {run_uid: (sha256, line) for run_uid, sha256, line in batch if uid in (None, run_uid)}
        is_in_bundle |= bool(in_bundle)
        run = models.Run
        statement = select(run.uid, run.content_sha256).where(run.uid.in_(in_bundle))
        for run_uid, sha256 in fetch(database, statement) if in_bundle else ():
            if in_bundle[run_uid][0] != sha256:
                fields = _between(in_bundle[run_uid][1], run_detail.withdrawn_or_not(database, run_uid))
                yield RunDifference(run_uid, run_detail.withdrawn(database, run_uid), fields)
    if uid is not None and not is_in_bundle:
        raise BadInput(f"the bundle has no run {uid}.")


def _lines(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield uid, content hash and text of each line of the bundle."""
    reader = Reader()
    with open_bundle(file) as bundle:
        for member in bundle.run_members():
            for where, line in bundle.lines(member):
                run = read_line(where, line, "", reader)
                yield run.uid, run.content_sha256, line


def _between(line: str, run: dict[str, Any]) -> list[Difference]:
    """The fields in which a line of the bundle and the stored run differ."""
    in_bundle = Run.model_validate_json(line)
    in_database = Run.model_validate({name: value for name, value in run.items() if name != "stored"})
    one, other = (dict(leaves(side.model_dump(mode="json"))) for side in (in_bundle, in_database))
    return [
        Difference(field, str(one.get(field, MISSING)), str(other.get(field, MISSING)))
        for field in sorted({*one, *other})
        if one.get(field, MISSING) != other.get(field, MISSING)
    ]
