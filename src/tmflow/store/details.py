"""The lists of a run as rows of their tables, which still lack the run: its id is not known before it is stored."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from tmflow.runner.runfile import Run
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

_ROW = {name: itemgetter(*fields) for name, (fields, _) in _FIELDS.items()}
_KEY = {name: itemgetter(*map(fields.index, key)) for name, (fields, key) in _FIELDS.items()}


def details(run: Run) -> dict[str, list[Key]]:
    """By name each list of a run that is not empty, its entries as rows."""
    said = vars(run)
    found: dict[str, list[Key]] = {
        name: list(map(row, map(vars, said[name]))) for name, row in _ROW.items() if said[name]
    }
    if run.fused:
        found["fused"] = [(variable,) for variable in run.fused]
    return found


def keys(name: str, rows: list[Key]) -> list[Any]:
    """What no two rows of a list may have the same."""
    return [variable for (variable,) in rows] if name == "fused" else list(map(_KEY[name], rows))
