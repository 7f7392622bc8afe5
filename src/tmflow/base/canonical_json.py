"""The one way to spell a JSON value, the hash of that spelling, and the leaves of a nested value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


def canonical_json(value: Any, fields: Callable[[Any], dict[str, Any]] | None = None) -> str:
    """The one spelling of a JSON value: sorted keys, no spaces; what every hash of this project is taken of.

    `fields` says what is spelt in place of an object that is not of JSON's types.
    """
    return _encoder(fields).encode(value)


@cache
def _encoder(fields: Callable[[Any], dict[str, Any]] | None) -> json.JSONEncoder:
    return json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=fields)


def sha256_of(value: Any) -> str:
    """Hex SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The way and the value of each that has none inside; of lists with the number of each entry, from 0."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield name, value
    else:
        for part, inner in parts:
            yield from leaves(inner, f"{name}.{part}" if name else str(part))
