"""Canonical JSON: one text for each value, the hash of that text, and the leaves of a nested value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


def canonical_json(value: Any, fields: Callable[[Any], dict[str, Any]] | None = None) -> str:
    """Serialise a JSON value with sorted keys and no spaces; every hash in this project is the hash of such a text.

    `fields` returns the fields to serialise for an object that is not of a JSON type.
    """
    return _encoder(fields).encode(value)


@cache
def _encoder(fields: Callable[[Any], dict[str, Any]] | None) -> json.JSONEncoder:
    return json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=fields)


def sha256_of(value: Any) -> str:
    """Hex SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each leaf; in a path, list entries are numbered from 0."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield name, value
    else:
        for part, inner in parts:
            yield from leaves(inner, f"{name}.{part}" if name else str(part))
