"""The time of day, as run files and the database write it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def utc_text(time: datetime) -> str:
    """A time as ISO 8601 in UTC to the millisecond, which sorts by time."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> str:
    """The time as such a text."""
    return utc_text(now())
