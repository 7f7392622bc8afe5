"""The time of day, as run files and the database write it."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> str:
    """The time, ISO 8601 in UTC to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
