"""The hash of all that a run says: two files with the same run agree to the byte of their meaning.

It is that of the run's canonical JSON. A field that came after the first runs had been stored is left out where it is
None or empty, and a factor where it is as it was before: so those keep their hash.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Protocol, get_args

from pydantic_core import PydanticSerializationError, to_json

from tmflow.canonical import canonical_json
from tmflow.spec import AS_BEFORE, TrialSpec

# Lists that may be long. The fields of their entries are in alphabetical order.
LISTS = frozenset({"aborts", "counters", "curve", "lost", "reads", "retries", "staleness"})
# The factors whose None is part of a run's hash, as it was when the first runs were stored.
_HASHED_NULLS = frozenset({"dropout_keep", "provider", "budget", "spending", "chunk"})


class Part(Protocol):
    """A run or a part of one. `LATER`: its fields that came after the first runs had been stored."""

    LATER: ClassVar[tuple[str, ...]]


def sha256(run: Part, spelt: Mapping[str, str]) -> str:
    """Hex SHA-256 of a run. `spelt`: by field the text of those, as `spelled` gives it, that many runs share."""
    said = _without_later(run)
    texts = []
    for name in sorted(said):
        value = said[name]
        if name in spelt:
            text = spelt[name]
        elif value and name in LISTS:
            text = listed(value)
        else:
            text = spelled(value)
        texts.append(f'"{name}":{text}')
    return hashlib.sha256(f"{{{','.join(texts)}}}".encode()).hexdigest()


def spelled(value: Any) -> str:
    """The text of a field of a run in the run's hash."""
    spell = _SCALARS.get(type(value))
    return canonical_json(value, _said) if spell is None else spell(value)


def listed(entries: Sequence[Part]) -> str:
    """The text of a list that is not empty: from pydantic, which spells it six times as fast as Python.

    It spells as Python does but for floats that Python gives an exponent.
    """
    rows = [_without_later(entry) if entry.LATER else vars(entry) for entry in entries]
    floats = _floats(type(entries[0]))
    as_python = all(not (value := row.get(name)) or 1e-4 <= value < 1e16 for row in rows for name in floats)
    try:
        return to_json(rows).decode() if as_python else canonical_json(rows)
    except PydanticSerializationError:  # of a text that is not Unicode: who takes the hash of it is told so
        return canonical_json(rows)


def _finite(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not JSON; a number is finite, or null")
    return repr(value)


# As canonical JSON spells them, without the time that its encoder takes to get ready.
_SCALARS: dict[type, Callable[[Any], str]] = {
    str: canonical_json,
    int: repr,
    float: _finite,
    bool: lambda value: "true" if value else "false",
    NoneType: lambda _: "null",
}


@cache
def _floats(part: type[Any]) -> tuple[str, ...]:
    """The fields of a part that may hold a float."""
    fields = part.model_fields.items()
    return tuple(name for name, field in fields if float in (field.annotation, *get_args(field.annotation)))


def _said(part: Any) -> dict[str, Any]:
    if not isinstance(part, TrialSpec):
        return _without_later(part)
    return {
        name: value
        for name, value in vars(part).items()
        if (name in _HASHED_NULLS if value is None else AS_BEFORE.get(name) != value)
    }


def _without_later(part: Part) -> dict[str, Any]:
    fields = dict(vars(part))
    for name in part.LATER:
        if fields[name] is None or fields[name] == []:
            del fields[name]
    return fields
