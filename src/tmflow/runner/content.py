"""The hash of all that a run says: two files with the same run agree to the byte of their meaning.

It is that of the run's canonical JSON. A field that came after the first runs had been stored is left out where it is
None or empty, and a factor where it is as it was before: so those keep their hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel
from pydantic_core import to_json

from tmflow.spec import AS_BEFORE, TrialSpec, canonical_json

# Lists that may be long. The fields of their entries are in alphabetical order.
_LISTS = ("aborts", "curve", "lost", "reads", "retries", "staleness")
# The factors whose None is part of a run's hash, as it was when the first runs were stored.
_HASHED_NULLS = frozenset({"dropout_keep", "provider", "budget", "spending", "chunk"})


class Part(Protocol):
    """A run or a part of one. `LATER`: its fields that came after the first runs had been stored."""

    LATER: ClassVar[tuple[str, ...]]


def sha256(run: Part, spelt: Mapping[str, str]) -> str:
    """Hex SHA-256 of a run. `spelt`: by field the text of those, as `spelled` gives it, that many runs share."""
    said = _without_later(run)
    said["counters"] = [_without_later(row) for row in said["counters"]]
    said["machine"] = said["machine"] and _without_later(said["machine"])
    known = {**spelt, **{name: listed(said[name]) for name in _LISTS if said.get(name)}}
    texts: list[str] = []
    for is_known, names in groupby(sorted(said), known.__contains__):
        if is_known:
            texts += [f'"{name}":{known[name]}' for name in names]
        else:
            texts.append(spelled({name: said[name] for name in names})[1:-1])
    return hashlib.sha256(f"{{{','.join(texts)}}}".encode()).hexdigest()


def spelled(part: Any) -> str:
    """The text of a field of a run, or of several, in the run's hash."""
    return canonical_json(part, _said)


def listed(entries: Sequence[BaseModel]) -> str:
    """The canonical JSON of a list that is not empty, from pydantic, which spells it six times as fast.

    It spells as Python does but for floats that Python gives an exponent.
    """
    floats = [name for name, value in vars(entries[0]).items() if isinstance(value, float)]
    for name in floats:
        for entry in entries:
            value = vars(entry)[name]
            if value != 0 and not 1e-4 <= value < 1e16:
                return canonical_json(entries, vars)
    return to_json(entries).decode()


def _said(part: BaseModel) -> dict[str, Any]:
    if not isinstance(part, TrialSpec):
        return vars(part)
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
