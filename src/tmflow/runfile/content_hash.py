"""The hash of a run's content: equal hashes mean equal runs, in any file.

It is the hash of the run's canonical JSON. Fields that were added after the first runs were stored are omitted if they
have their default, and later factors if they have the value of all earlier runs. So old runs keep their hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any

from msgspec import Raw, to_builtins
from msgspec.json import encode as to_json
from pydantic import BaseModel

from tmflow.base.canonical_json import canonical_json
from tmflow.spec.factors import VALUES_BEFORE
from tmflow.spec.trial import TrialSpec

# The lists of a run, and the fields by which their entries are unique. The fields are in alphabetical order.
LISTS = {
    "aborts": ("worker", "variable", "mechanism", "raw_code", "family"),
    "counters": ("worker", "variable"),
    "curve": ("iteration",),
    "failed_publications": ("worker", "variable", "failed_publications"),
    "lost": ("variable",),
    "phases": ("worker", "phase"),
    "processes": ("role", "index"),
    "reads": ("worker", "variable"),
    "retries": ("worker", "variable", "retries"),
    "staleness": ("worker", "staleness"),
    "taken_blocks": ("worker", "variable", "taken_blocks"),
}
# The factors whose None is part of the hash, because the first runs were hashed with it.
_HASHED_NULLS = frozenset({"dropout_keep", "provider", "budget", "spending", "chunk"})
_SAME_JSON = frozenset({str, int, bool, NoneType})


def sha256(run: BaseModel, serialised: Mapping[str, Raw]) -> str:
    """Hex SHA-256 of a run. `serialised`: fields that were serialised by `serialise` or `serialise_list` already."""
    others = {name: _ready(name, value) for name, value in hashed_fields(run).items() if name not in serialised}
    fields = {**serialised, **others}
    return hashlib.sha256(to_json(fields, order="sorted")).hexdigest()


def serialise(value: Any) -> Raw:
    """Serialise a field of a run as in the run's hash."""
    if isinstance(value, BaseModel):
        return Raw(to_json({name: _ready(name, field) for name, field in hashed_fields(value).items()}, order="sorted"))
    return Raw(canonical_json(value).encode())


def serialise_list(entries: Sequence[Any]) -> Raw:
    """Serialise a non-empty list of models, or of their structs, as in a run's hash."""
    if isinstance(entries[0], BaseModel):
        return Raw(b"[" + b",".join(bytes(serialise(entry)) for entry in entries) + b"]")
    values = [value for name in entries[0].FLOATS for value in map(attrgetter(name), entries)]
    has_exponents = [value for value in values if value and not 1e-4 <= value < 1e16]
    return Raw(canonical_json(entries, to_builtins).encode() if has_exponents else to_json(entries))


def _ready(name: str, value: Any) -> Any:
    """Prepare a field for msgspec, whose JSON is canonical except for floats that Python writes with an exponent."""
    if type(value) in _SAME_JSON or (type(value) is float and (not value or 1e-4 <= value < 1e16)):
        return value
    return serialise_list(value) if value and name in LISTS else serialise(value)


def hashed_fields(part: Any) -> dict[str, Any]:
    """The fields of a part that are in the hash."""
    if isinstance(part, TrialSpec):
        return {
            name: value
            for name, value in vars(part).items()
            if (name in _HASHED_NULLS if value is None else VALUES_BEFORE.get(name) != value)
        }
    fields = dict(vars(part))
    for name in part.LATER:
        if fields[name] == type(part).model_fields[name].default:
            del fields[name]
    return fields
