"""The one spelling of a JSON value, and the hash that is taken of it: what identities are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
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
