"""Every value inside a value of JSON, with the way to it, such as `counters.0.updates`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The way and the value of each that has none inside; of lists with the number of each entry, from 0."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield name, value
    else:
        for part, inner in parts:
            yield from leaves(inner, f"{name}.{part}" if name else str(part))
