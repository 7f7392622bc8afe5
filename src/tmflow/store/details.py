"""The lists of a run as rows of their tables, which still lack the run: its id is not known before it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from tmflow.store import models
from tmflow.store.once import Key, columns

REASON = ("mechanism", "raw_code", "family")
"""What an abort has in its row in place of the id of an AbortReason."""


def _of_table(model: type[models.Base]) -> tuple[list[str], list[str]]:
    """The columns of a table, and those of its key, without the run."""
    key = [column.name for column in model.__table__.primary_key if column.name != "run_id"]
    return [name for name in columns(model) if name != "run_id"], key


# By list: the fields of an entry in the order of its row, and those that no two entries have the same.
_FIELDS = {name: _of_table(model) for name, model in models.DETAILS.items()}
_FIELDS["aborts"] = ["worker", "variable", *REASON, "n"], ["worker", "variable", *REASON]

_ROW = {name: attrgetter(*fields) for name, (fields, _) in _FIELDS.items()}
_KEY = {name: itemgetter(*map(fields.index, key)) for name, (fields, key) in _FIELDS.items()}


def details(lists: Mapping[str, Sequence[Any]], fused: Sequence[str]) -> dict[str, list[Key]]:
    """By name each list of a run, none of them empty, its entries as rows."""
    found: dict[str, list[Key]] = {name: list(map(_ROW[name], entries)) for name, entries in lists.items()}
    if fused:
        found["fused"] = [(variable,) for variable in fused]
    return found


def keys(name: str, rows: list[Key]) -> list[Any]:
    """What no two rows of a list may have the same."""
    return [variable for (variable,) in rows] if name == "fused" else list(map(_KEY[name], rows))
