"""Sums over the details of runs that never overflow, because an overflow would break a page."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, case, cast, func
from sqlalchemy.orm import InstrumentedAttribute

from tmflow.platform.bounds import LONGEST_S
from tmflow.store.models import Real

MOST = 2**53  # the largest integer up to which all integers are exact in floating point


def total(column: InstrumentedAttribute[Any]) -> ColumnElement[int]:
    """The sum of counts, clipped to `MOST`, which no run reaches.

    Computed in floating point: SQLite fails if a sum of integers exceeds 64 bits, and PostgreSQL returns a decimal.
    """
    exact = _sum(column)
    return cast(case((exact > MOST, MOST), else_=exact), BigInteger)


def total_s(column: InstrumentedAttribute[Any]) -> ColumnElement[float]:
    """The sum of times; NULL if one of them is impossibly long."""
    return case((func.max(column) <= LONGEST_S, func.sum(column)))


def share(part: InstrumentedAttribute[int], total_count: InstrumentedAttribute[int]) -> ColumnElement[float]:
    """The sum of `part` divided by the sum of `total_count`; NULL if the divisor is 0."""
    return _sum(part) / func.nullif(_sum(total_count), 0.0)


def _sum(column: InstrumentedAttribute[Any]) -> ColumnElement[float]:
    return func.sum(cast(column, Real))
