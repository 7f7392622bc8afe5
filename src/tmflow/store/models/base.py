"""Common parts of all tables: portable column types for SQLite and PostgreSQL, names, and kinds of CHECK."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Double, ForeignKey, MetaData, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.sql.compiler import TypeCompiler

# SQLite's strict tables refuse a value of the wrong type, but know only INTEGER, REAL, TEXT and BLOB.
STRICT = {"sqlite_strict": True}
STRICT_WITHOUT_ROWID = {"sqlite_strict": True, "sqlite_with_rowid": False}


class Count(BigInteger):
    """A 64-bit integer."""


class Real(Double[float]):
    """A 64-bit floating-point number."""


class Flag(Boolean):
    """A boolean; SQLite stores 1 or 0."""


class UtcTime(Text):
    """A time in UTC as ISO 8601 text, which sorts chronologically."""


@compiles(Count, "sqlite")
@compiles(Flag, "sqlite")
def _integer(type_: Count | Flag, compiler: TypeCompiler, **options: Any) -> str:
    return "INTEGER"


@compiles(Real, "sqlite")
def _real(type_: Real, compiler: TypeCompiler, **options: Any) -> str:
    return "REAL"


class Base(DeclarativeBase):
    """Base of all tables; every constraint gets a name, so that migrations can refer to it."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )
    type_annotation_map = {int: Count(), float: Real(), bool: Flag(), str: Text()}  # noqa: RUF012


Id = Annotated[int, mapped_column(primary_key=True)]
UniqueText = Annotated[str, mapped_column(unique=True)]
AtUtc = Annotated[str, mapped_column(UtcTime())]
# Details belong to their run and are deleted with it.
RunId = Annotated[int, mapped_column(ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)]
KeyInt = Annotated[int, mapped_column(primary_key=True, autoincrement=False)]
KeyText = Annotated[str, mapped_column(primary_key=True)]


def positive(*columns: str) -> list[CheckConstraint]:
    """Each column is NULL (unreadable) or more than 0."""
    return [CheckConstraint(f"{column} > 0", name=f"{column}_positive") for column in columns]


def not_negative(*columns: str) -> list[CheckConstraint]:
    """Each column is NULL (not measured) or at least 0."""
    return [CheckConstraint(f"{column} >= 0", name=f"{column}_not_negative") for column in columns]


def between(column: str, low: int, high: int) -> CheckConstraint:
    """The column is NULL or in [low, high]."""
    return CheckConstraint(f"{column} BETWEEN {low} AND {high}", name=f"{column}_range")


def one_of(column: str, values: Iterable[str]) -> CheckConstraint:
    """The column is NULL or one of the values."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_valid")


def flags(*columns: str) -> list[CheckConstraint]:
    """Each column is NULL or a boolean (SQLite would accept any integer)."""
    return [CheckConstraint(f"CAST({column} AS INTEGER) IN (0, 1)", name=f"{column}_flag") for column in columns]
