"""The time of day in UTC, in the format of run files and the database."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def utc_text(time: datetime) -> str:
    """Format a time as ISO 8601 in UTC with milliseconds; such texts sort chronologically."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> str:
    """The current time, formatted by `utc_text`."""
    return utc_text(now())
