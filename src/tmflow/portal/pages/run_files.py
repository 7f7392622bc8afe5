"""Runs as files: a table of many, or all that the run file of one told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tmflow.base import escaping
from tmflow.base.leaves import leaves
from tmflow.runfile import record


def table_csv(runs: pd.DataFrame) -> str:
    """One line for each run; no text in it is a formula."""
    return escaping.csv_frame(runs).to_csv(index=False)


def table_json(runs: pd.DataFrame) -> str:
    """A list with an object for each run; what is missing is null."""
    return json.dumps(runs.astype(object).where(runs.notna(), None).to_dict("records"), allow_nan=False)


def run_json(run: Mapping[str, Any]) -> str:
    """A stored run (`stored.run`) in the layout of its run file; an emulated one without its times, which it says."""
    return json.dumps(_told(run), indent=1, allow_nan=False)


def run_csv(run: Mapping[str, Any]) -> str:
    """The same as lines of name and value, such as counters.0.updates,500."""
    return escaping.csv_frame(pd.DataFrame(leaves(_told(run)), columns=["name", "value"], dtype=object)).to_csv(
        index=False
    )


def _told(run: Mapping[str, Any]) -> dict[str, Any]:
    return record.shown(record.Run.model_validate({name: run[name] for name in run if name != "stored"}))
