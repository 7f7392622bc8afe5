"""What is in the quarantine, and what was done there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from tmflow.base.text import several
from tmflow.contributions.quarantine import Quarantine
from tmflow.contributions.tables import OPEN, Audit, Upload


@dataclass(frozen=True)
class Waiting:
    """A bundle that waits for a decision, with the report of its check."""

    identity: str
    name: str
    bytes: int
    staged_at_utc: str
    staged_by: str
    state: str
    reason: str | None
    report: dict[str, Any]

    @property
    def sentence(self) -> str:
        """All that a maintainer asks first; texts of others are in it as they came."""
        platforms = ", ".join(self.report["platforms"].values())
        conflict = f" It conflicts with the database: {self.reason}" if self.state == "conflict" else ""
        return (
            f"{several(self.report['runs'], 'run')} of {platforms}, {self.bytes / 1e6:.2f} MB, as {self.name} from "
            f"{self.staged_by} at {self.staged_at_utc}.{conflict}"
        )


def waiting(quarantine: Quarantine) -> list[Waiting]:
    """The oldest first."""
    query = select(Upload).where(Upload.state.in_(OPEN)).order_by(Upload.staged_at_utc)
    with quarantine.begin() as connection:
        rows = connection.execute(query).mappings().all()
    return [
        Waiting(
            identity=row["identity"],
            name=row["name"],
            bytes=row["file_bytes"],
            staged_at_utc=row["staged_at_utc"],
            staged_by=row["staged_by"],
            state=row["state"],
            reason=row["reason"],
            report=json.loads(row["report_json"]),
        )
        for row in rows
    ]


def audit(quarantine: Quarantine, last: int) -> list[dict[str, Any]]:
    """The newest actions, the newest last."""
    columns = (Audit.at_utc, Audit.action, Audit.outcome, Audit.by, Audit.identity, Audit.details)
    with quarantine.begin() as connection:
        rows = connection.execute(select(*columns).order_by(Audit.id.desc()).limit(last)).mappings().all()
    return [dict(row) for row in reversed(rows)]
