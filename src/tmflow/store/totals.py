"""Sums over the details of runs, which hold whatever the numbers are: an overflow would take a page down."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, case, cast, func
from sqlalchemy.orm import InstrumentedAttribute

from tmflow.platform.bounds import LONGEST_S
from tmflow.store.models import Real

MOST = 2**53  # the whole numbers up to it are exact in floating point


def total(column: InstrumentedAttribute[Any]) -> ColumnElement[int]:
    """The sum of counts; more than `MOST`, which no run counts, is given as `MOST`.

    In floating point: SQLite refuses a sum of integers beyond 64 bits, and PostgreSQL makes it a decimal number.
    """
    exact = _sum(column)
    return cast(case((exact > MOST, MOST), else_=exact), BigInteger)


def total_s(column: InstrumentedAttribute[Any]) -> ColumnElement[float]:
    """The sum of times; NULL where one is longer than any machine takes."""
    return case((func.max(column) <= LONGEST_S, func.sum(column)))


def share(part: InstrumentedAttribute[int], whole: InstrumentedAttribute[int]) -> ColumnElement[float]:
    """The sum of the parts over that of the wholes; NULL where that is 0."""
    return _sum(part) / func.nullif(_sum(whole), 0.0)


def _sum(column: InstrumentedAttribute[Any]) -> ColumnElement[float]:
    return func.sum(cast(column, Real))
