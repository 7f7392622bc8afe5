"""Runs and platforms as JSON, for the search in the browser and for download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from tmflow.base.files import write_json, write_text
from tmflow.spec.trial import TrialSpec
from tmflow.store import run_detail, search
from tmflow.store.frames import Source
from tmflow.store.search import RunFilter
from tmflow.study.commands import train_command
from tmflow.study.config import Scale

AT_MOST = 20_000  # runs that even a phone's browser searches and sorts without delay
CHUNK = 2_000  # runs per file
# In addition to the factors in which runs differ.
COLUMNS = ("uid", "experiment", "platform", "evidence", "backend", "status", "reason", "started_at_utc", "round")
RESULTS = ("loop_s", "final_accuracy", "disturbed", "resumed")
SHOWN = ("started_at_utc", "experiment", "strategy", "threads", "batch", "status", "loop_s", "final_accuracy")
CHOICES = ("experiment", "platform", "evidence", "strategy", "status")


def newest(source: Source, scale: Scale, at_most: int = AT_MOST) -> pd.DataFrame:
    """The newest runs of a scale with any status and definition, newest first."""
    return search.page(source, RunFilter(scales=(scale,)), rows=at_most)


def write(runs: pd.DataFrame, total: int, folder: Path) -> dict[str, Any]:
    """Write the runs as index.json and files of `CHUNK` runs; `total` counts all runs. Returns the index."""
    factors = list(TrialSpec.model_fields)
    shown_factors = [name for name in factors if runs[name].nunique(dropna=False) > 1 or name in SHOWN]
    table = runs[[*COLUMNS, *shown_factors, *RESULTS]].astype(object)
    table["command"] = [
        train_command({name: None if pd.isna(row[name]) else row[name] for name in factors}, int(row["round"]))
        for row in runs[[*factors, "round"]].astype(object).to_dict("records")
    ]
    rows = table.where(table.notna(), None).values.tolist()
    starts = range(0, len(rows), CHUNK)
    files = [f"{at // CHUNK}.json" for at in starts]
    index = {
        "total": total,
        "listed": len(rows),
        "columns": list(table.columns),
        "shown": list(SHOWN),
        "choices": {name: {value: value for value in sorted(set(map(str, runs[name].dropna())))} for name in CHOICES},
        "files": files,
    }
    write_json(folder / "index.json", index)
    for at, name in zip(starts, files, strict=True):
        write_text(folder / name, json.dumps(rows[at : at + CHUNK], allow_nan=False, separators=(",", ":")))
    return index


def platforms(source: Source, scale: Scale, here: pd.DataFrame) -> list[dict[str, Any]]:
    """Each platform and source with its key, name, facts, the environment of its newest run, and counts of its runs.

    `here` are the counts of this scale.
    """
    entries = []
    for slug, part in here.groupby("platform"):
        newest_run = search.page(source, RunFilter(scales=(scale,), platforms=(str(slug),)), rows=1)
        run = run_detail.run(source, str(newest_run["uid"].iloc[0]))
        ran = part.groupby(["experiment", "evidence", "status"], sort=False)["n_runs"].sum().reset_index()
        entries.append(
            {
                "slug": str(slug),
                "name": str(part["platform_name"].iloc[0]),
                "facts": run["platform"],
                "environment": run["environment"],
                "ran": ran.to_dict("records"),
            }
        )
    return entries
