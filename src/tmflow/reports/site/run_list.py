"""The runs of the site: how many there are, and their list, files of JSON that a page searches and sorts."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd

from tmflow.base.files import write_json, write_text
from tmflow.charts.captions import Titles
from tmflow.charts.figures import slug
from tmflow.spec.trial import TrialSpec
from tmflow.store import queries
from tmflow.store.frames import Source
from tmflow.store.run_filter import RunFilter
from tmflow.study.campaign import train_command
from tmflow.study.config import Scale

AT_MOST = 20_000  # runs that even a phone's browser searches and sorts without delay
CHUNK = 2_000  # runs per file
# In addition to the factors in which runs differ.
COLUMNS = ("uid", "experiment", "platform", "evidence", "backend", "status", "reason", "started_at_utc", "round")
OUTCOMES = ("loop_s", "final_accuracy", "disturbed", "resumed")
SHOWN = ("started_at_utc", "experiment", "strategy", "threads", "batch", "status", "loop_s", "final_accuracy")
CHOICES = ("experiment", "platform", "evidence", "strategy", "status")


def count_runs(here: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """The numbers of runs with and without a result, by experiment, platform and evidence."""
    counts = here.assign(ok=here["n_runs"].where(here["status"] == "ok", 0))
    table = counts.groupby(["experiment", "platform", "evidence"], sort=False)[["ok", "n_runs"]].sum().reset_index()
    table = table.assign(others=table["n_runs"] - table["ok"], slug=table["experiment"].map(slug))
    return table.to_dict("records")


def newest_runs(source: Source, scale: Scale, at_most: int = AT_MOST) -> pd.DataFrame:
    """The newest runs of a scale with any status and definition, newest first."""
    return queries.page(source, RunFilter(scales=(scale,)), rows=at_most)


def write_runs(runs: pd.DataFrame, total: int, titles: Titles, folder: Path) -> dict[str, Any]:
    """Write the runs as index.json and files of `CHUNK` runs; `total` counts all runs. Returns the index."""
    factors = list(TrialSpec.model_fields)
    shown_factors = [name for name in factors if runs[name].nunique(dropna=False) > 1 or name in SHOWN]
    table = runs[[*COLUMNS, *shown_factors, *OUTCOMES]].astype(object)
    table["command"] = [
        train_command({name: None if pd.isna(row[name]) else row[name] for name in factors}, int(row["round"]))
        for row in runs[[*factors, "round"]].astype(object).to_dict("records")
    ]
    rows = table.where(table.notna(), None).values.tolist()
    chunks = {f"{at // CHUNK}.json": rows[at : at + CHUNK] for at in range(0, len(rows), CHUNK)}
    values = {name: sorted(set(map(str, runs[name].dropna()))) for name in CHOICES}
    index = {
        "total": total,
        "listed": len(rows),
        "columns": list(table.columns),
        "shown": list(SHOWN),
        "choices": {name: {value: titles.get(value, value) for value in of} for name, of in values.items()},
        "files": list(chunks),
    }
    write_json(folder / "index.json", index)
    for name, chunk in chunks.items():
        write_text(folder / name, json.dumps(chunk, allow_nan=False, separators=(",", ":")))
    return index
