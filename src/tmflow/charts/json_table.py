"""A table of numbers as a JSON document, with the type and the unit of each column; its format has a version.

The rows are lists in the order of the columns, so that a document is small: `pandas.DataFrame(document["rows"],
columns=[column["name"] for column in document["columns"]])` is the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import pandas as pd
from pandas.api import types

SCHEMA_VERSION = 1
"""It grows if a field changes its meaning or goes; new fields and new columns do not change it."""

Type = Literal["integer", "number", "boolean", "string"]

ESTIMATES = ("estimate", "low", "high", "median", "median_low", "median_high")
"""The columns in the unit of the measure, which the column `unit` names."""
UNITS = {
    "hardware_threads": "threads", "threads": "threads", "batch": "images", "matrix": "pixels", "iterations": "steps",
    "iteration": "steps", "learning_rate": "1", "dropout_keep": "fraction", "hidden": "units", "test_images": "images",
    "steps_per_call": "steps", "step_us": "us",
    "servers": "servers", "backup_workers": "workers", "slowdown": "1",
    "curve_points": "points", "staleness": "updates", "up_to": "updates", "target": "fraction", "elements": "fraction",
    "rounds": "rounds", "disturbed_rounds": "rounds", "farthest": "1", "runs_left_out": "runs",
    "last_run_utc": "UTC, ISO 8601",
}  # fmt: skip


def document(table: pd.DataFrame, kind: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a table: kind, schema version, the fields of `about`, columns and rows.

    A value that was not measured or does not apply is null; no number is NaN or infinite.
    """
    rows = table.astype(object).to_numpy().tolist()
    return {
        "kind": kind,
        "schema_version": SCHEMA_VERSION,
        **about,
        "columns": [{"name": name, "type": _type(table[name]), "unit": _unit(table, name)} for name in map(str, table)],
        "rows": [[_value(value) for value in row] for row in rows],
    }


def _type(column: pd.Series) -> Type:
    if types.is_bool_dtype(column):
        return "boolean"
    if types.is_integer_dtype(column):
        return "integer"
    return "number" if types.is_float_dtype(column) else "string"


def _unit(table: pd.DataFrame, name: str) -> str | None:
    """The unit of a column; None if it has none, or one for each row, which the column `unit` then names."""
    if name not in ESTIMATES or "unit" not in table:
        return UNITS.get(name)
    units = table["unit"].dropna().unique()
    return str(units[0]) if len(units) == 1 else None


def _value(value: Any) -> Any:
    return None if pd.isna(value) or (isinstance(value, float) and math.isinf(value)) else value
