"""The lists of a run as rows of their tables, which still lack the run: its id is not known before it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from tmflow.store import models
from tmflow.store.dedup import Key, columns

REASON = ("mechanism", "raw_code", "family")
"""What an abort has in its row in place of the id of an AbortReason."""


# By list: the fields of an entry in the order of its row.
_FIELDS = {name: [column for column in columns(model) if column != "run_id"] for name, model in models.DETAILS.items()}
_FIELDS["aborts"] = ["worker", "variable", *REASON, "n"]
_ROW = {name: attrgetter(*fields) for name, fields in _FIELDS.items()}


def details(lists: Mapping[str, Sequence[Any]], fused: Sequence[str]) -> dict[str, list[Key]]:
    """By name each list of a run, none of them empty, its entries as rows."""
    found: dict[str, list[Key]] = {name: list(map(_ROW[name], entries)) for name, entries in lists.items()}
    if fused:
        found["fused"] = [(variable,) for variable in fused]
    return found
