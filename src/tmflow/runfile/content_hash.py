"""The hash of all that a run says: two files with the same run agree to the byte of their meaning.

It is that of the run's canonical JSON. A field that came after the first runs had been stored is left out where it is
None or empty, and a factor where it is as it was before: so those keep their hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any

from msgspec import Raw, Struct, to_builtins
from msgspec.json import encode as to_json
from pydantic import BaseModel

from tmflow.base.canonical_json import canonical_json
from tmflow.runfile.structs import struct_of
from tmflow.spec.factors import VALUES_BEFORE
from tmflow.spec.trial import TrialSpec

# Lists that may be long, and what no two entries of one have the same. Their fields are in alphabetical order.
LISTS = {
    "aborts": ("worker", "variable", "mechanism", "raw_code", "family"),
    "counters": ("worker", "variable"),
    "curve": ("iteration",),
    "failed_publications": ("worker", "variable", "failed_publications"),
    "lost": ("variable",),
    "reads": ("worker", "variable"),
    "retries": ("worker", "variable", "retries"),
    "staleness": ("worker", "staleness"),
    "taken_blocks": ("worker", "variable", "taken_blocks"),
}
# The factors whose None is part of a run's hash, as it was when the first runs were stored.
_HASHED_NULLS = frozenset({"dropout_keep", "provider", "budget", "spending", "chunk"})
_SPELT_ALIKE = frozenset({str, int, bool, NoneType})


def sha256(run: BaseModel, spelt: Mapping[str, Raw]) -> str:
    """Hex SHA-256 of a run. `spelt`: by field what `spelled` or `listed` gives of those that are known."""
    fields = {**spelt, **{name: _ready(name, value) for name, value in hashed_fields(run).items() if name not in spelt}}
    return hashlib.sha256(to_json(fields, order="sorted")).hexdigest()


def spelled(value: Any) -> Raw:
    """A field of a run as it is spelt in the run's hash."""
    if isinstance(value, BaseModel):
        return Raw(to_json({name: _ready(name, field) for name, field in hashed_fields(value).items()}, order="sorted"))
    return Raw(canonical_json(value).encode())


def listed(entries: Sequence[Any]) -> Raw:
    """A list that is not empty, of models or of their structs, as it is spelt in a run's hash."""
    if not isinstance(entries[0], Struct):
        model: type[BaseModel] = type(entries[0])
        entries = [struct_of(model)(**vars(entry)) for entry in entries]
    values = [value for name in entries[0].FLOATS for value in map(attrgetter(name), entries)]
    has_exponents = [value for value in values if value and not 1e-4 <= value < 1e16]
    return Raw(canonical_json(entries, to_builtins).encode() if has_exponents else to_json(entries))


def _ready(name: str, value: Any) -> Any:
    """A field for msgspec to spell: it does so as canonical JSON does, but for floats that Python gives an exponent."""
    if type(value) in _SPELT_ALIKE or (type(value) is float and (not value or 1e-4 <= value < 1e16)):
        return value
    return listed(value) if value and name in LISTS else spelled(value)


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
        if fields[name] is None or fields[name] == []:
            del fields[name]
    return fields
