"""The quarantine: its folder, tables, waiting bundles, audit and lock."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from sqlalchemy import CheckConstraint, Connection, MetaData, Text, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeEngine

from tmflow.base import clock
from tmflow.base.clock import utc_text
from tmflow.base.errors import BadInput
from tmflow.base.files import writing
from tmflow.base.paths import results_dir
from tmflow.base.text import several
from tmflow.store.engine import explain_errors, sqlite_url, writer_engine
from tmflow.store.models.base import STRICT, AtUtc, Count, Id, UtcTime, not_negative, one_of

VARIABLE = "TMFLOW_QUARANTINE_DIR"
PATIENCE_S = 60.0  # longest wait for another process
LONGEST = 2000  # characters of a recorded text
RECEIVED = "received.tmp"  # a bundle that is being received
_BUNDLE = re.compile(r"[0-9a-f]{64}\.zip")


def folder() -> Path:
    """The folder of the quarantine: $TMFLOW_QUARANTINE_DIR, or quarantine/ in the results folder."""
    override = os.environ.get(VARIABLE)
    return Path(override).expanduser().absolute() if override else results_dir() / "quarantine"


@dataclass(frozen=True)
class Quarantine:
    """The folder of the staged bundles, `<identity>.zip`, and quarantine.db; `now` gives the time."""

    folder: Path
    now: Callable[[], datetime] = clock.now
    patience_s: float = PATIENCE_S

    def file(self, identity: str) -> Path:
        """The path of the bundle with this identity."""
        return self.folder / f"{identity}.zip"

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Begin a write transaction, which excludes other writers; folder and tables are created on first use.

        Raises BadInput if the folder cannot be written.
        """
        self._make_folder()
        url = sqlite_url(self.folder / "quarantine.db")
        with explain_errors(url), writer_engine(url).begin() as connection:
            Base.metadata.create_all(connection)
            for change in ("UPDATE", "DELETE"):
                connection.exec_driver_sql(
                    f"CREATE TRIGGER IF NOT EXISTS audit_{change.lower()} BEFORE {change} ON audit "
                    "BEGIN SELECT RAISE(ABORT, 'the audit is only ever added to'); END"
                )
            yield connection

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the exclusive lock for adding and deciding, after removing leftovers of killed processes.

        The kernel releases it when the process ends. Raises BadInput if another process holds it too long.
        """
        self._make_folder()
        with writing(self.folder):
            lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._take(lock)
            with self.begin() as connection:
                kept = set(connection.scalars(select(Upload.identity).where(Upload.state != "rejected")))
            for file in self.folder.iterdir():
                if file.name == RECEIVED or (_BUNDLE.fullmatch(file.name) and file.stem not in kept):
                    file.unlink()
            yield
        finally:
            os.close(lock)

    def note(
        self,
        connection: Connection,
        action: Action,
        outcome: str,
        by: str,
        identity: str | None = None,
        details: str | None = None,
    ) -> None:
        """Record an action in the audit."""
        row = {"action": action, "outcome": outcome, "by": by[:LONGEST], "identity": identity}
        row |= {"at_utc": utc_text(self.now()), "details": details and details[:LONGEST]}
        connection.execute(insert(Audit), [row])

    def _make_folder(self) -> None:
        """Create the folder with access for its owner only: it holds unpublished bundles and visitors' addresses."""
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _take(self, lock: int) -> None:
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise BadInput(
                        f"another bundle has been checked or stored for more than {self.patience_s:g} s, and only one "
                        "at a time can be: try again when it is done."
                    ) from error
                time.sleep(0.05)
            except OSError as error:
                raise BadInput(f"the lock of {self.folder} cannot be taken: {error.strerror}.") from error


@dataclass(frozen=True)
class Waiting:
    """A bundle that waits for a decision, with its report."""

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
        """A summary for maintainers; it has untrusted text, unescaped."""
        platforms = ", ".join(self.report["platforms"].values())
        conflict = f" It conflicts with the database: {self.reason}" if self.state == "conflict" else ""
        return (
            f"{several(self.report['runs'], 'run')} of {platforms}, {self.bytes / 1e6:.2f} MB, as {self.name} from "
            f"{self.staged_by} at {self.staged_at_utc}.{conflict}"
        )


def waiting(quarantine: Quarantine) -> list[Waiting]:
    """The waiting bundles, oldest first."""
    columns = (Upload.identity, Upload.name, Upload.file_bytes.label("bytes"), Upload.staged_at_utc, Upload.staged_by)
    query = select(*columns, Upload.state, Upload.reason, Upload.report_json).where(Upload.state.in_(OPEN))
    with quarantine.begin() as connection:
        rows = [dict(row) for row in connection.execute(query.order_by(Upload.staged_at_utc)).mappings()]
    return [Waiting(report=json.loads(row.pop("report_json")), **row) for row in rows]


def audit(quarantine: Quarantine, last: int) -> list[dict[str, Any]]:
    """The newest actions of the audit, the newest last."""
    columns = (Audit.at_utc, Audit.action, Audit.outcome, Audit.by, Audit.identity, Audit.details)
    with quarantine.begin() as connection:
        rows = connection.execute(select(*columns).order_by(Audit.id.desc()).limit(last)).mappings().all()
    return [dict(row) for row in reversed(rows)]


State = Literal["waiting", "accepted", "rejected", "conflict"]
"""`conflict`: the database has runs with the same uids and other content; both are kept for comparison."""
OPEN: tuple[State, ...] = ("waiting", "conflict")

Action = Literal["token", "receive", "upload", "report", "accept", "reject", "import", "withdraw", "restore", "limit"]


class Base(DeclarativeBase):
    metadata = MetaData()
    type_annotation_map: ClassVar[dict[type, TypeEngine[Any]]] = {int: Count(), str: Text()}


class Upload(Base):
    """A staged bundle, by its identity; its file exists unless it was rejected."""

    __tablename__ = "upload"
    identity: Mapped[str] = mapped_column(primary_key=True)
    file_sha256: Mapped[str]
    file_bytes: Mapped[int]
    name: Mapped[str]
    staged_at_utc: Mapped[AtUtc]
    staged_by: Mapped[str]
    state: Mapped[str]
    report_json: Mapped[str]
    decided_at_utc: Mapped[str | None] = mapped_column(UtcTime())
    decided_by: Mapped[str | None]
    reason: Mapped[str | None]
    __table_args__ = (
        one_of("state", get_args(State)),
        *not_negative("file_bytes"),
        CheckConstraint("(state = 'waiting') = (decided_at_utc IS NULL)", name="decided"),
        STRICT,
    )


class Audit(Base):
    """The log of actions, in order; the table allows only inserts."""

    __tablename__ = "audit"
    id: Mapped[Id]
    at_utc: Mapped[AtUtc] = mapped_column(index=True)
    action: Mapped[str]
    outcome: Mapped[str]
    by: Mapped[str]
    identity: Mapped[str | None]
    details: Mapped[str | None]
    __table_args__ = (one_of("action", get_args(Action)), STRICT)
