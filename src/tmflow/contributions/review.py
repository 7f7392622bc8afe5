"""What a maintainer makes of a bundle: into the database, or away."""

from __future__ import annotations

import re

from sqlalchemy import URL, RowMapping, select, update

from tmflow.base import escaping
from tmflow.base.clock import utc_text
from tmflow.base.errors import LONGEST, BadInput
from tmflow.contributions.importer import SHORTEST, ImportReport, import_bundle
from tmflow.contributions.quarantine import Quarantine
from tmflow.contributions.tables import OPEN, Action, State, Upload
from tmflow.store.storing import Conflict

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
