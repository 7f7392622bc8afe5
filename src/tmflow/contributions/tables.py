"""The quarantine's own tables, in a SQLite file of its own: the study's database knows nothing of what waits."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from sqlalchemy import CheckConstraint, Connection, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeEngine

from tmflow.store.models.base import STRICT, AtUtc, Count, Id, UtcTime, not_negative, one_of

State = Literal["waiting", "accepted", "rejected", "conflict"]
"""`conflict`: the database has runs of the same uids that say otherwise; both are kept, to be compared."""
OPEN: tuple[State, ...] = ("waiting", "conflict")

Action = Literal["token", "receive", "upload", "report", "accept", "reject", "import", "withdraw", "restore", "limit"]


class Base(DeclarativeBase):
    metadata = MetaData()
    type_annotation_map: ClassVar[dict[type, TypeEngine[Any]]] = {int: Count(), str: Text()}


class Upload(Base):
    """A bundle that was staged, known by its identity; its file is there unless it was rejected."""

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
    """What happened, in order. Rows are only ever added: the table refuses all else."""

    __tablename__ = "audit"
    id: Mapped[Id]
    at_utc: Mapped[AtUtc] = mapped_column(index=True)
    action: Mapped[str]
    outcome: Mapped[str]
    by: Mapped[str]
    identity: Mapped[str | None]
    details: Mapped[str | None]
    __table_args__ = (one_of("action", get_args(Action)), STRICT)


def make(connection: Connection) -> None:
    """Make what is missing of the tables."""
    Base.metadata.create_all(connection)
    for change in ("UPDATE", "DELETE"):
        connection.exec_driver_sql(
            f"CREATE TRIGGER IF NOT EXISTS audit_{change.lower()} BEFORE {change} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'the audit is only ever added to'); END"
        )
