"""The table of an experiment: every point with its intervals, as HTML for the report and as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from tmflow.analysis import run_table, summaries
from tmflow.base.files import write_text
from tmflow.charts.captions import MEASURED_IN_FULL
from tmflow.spec.strategies import PARAMETERS

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.5 "Liberation Sans", Arial, sans-serif; margin: 1.5em; color: #222 }}
table {{ border-collapse: collapse }} td, th {{ padding: .25em .8em; text-align: right; border-bottom: 1px solid #ddd }}
th {{ border-bottom: 2px solid #888 }}
td:first-child, th:first-child, td:last-child, th:last-child {{ text-align: left }}
</style></head><body><h1>{title}</h1>
<p>{question}</p>
<p>Estimate and 95 % interval over the rounds, paired within a round. {note}</p>
{table}
</body></html>
"""
NOTES = {
    "quick": "Quick scale: a smoke test with few rounds and steps; nothing can be concluded from it.",
    "full": "",
}
MEASURES = {
    "step_time": ("time per step, us", "{:.1f}"),
    "speedup": ("speedup over itself with one worker", "{:.2f}"),
    "speedup_vs_tf_lock": ("speedup over tf_lock with one worker", "{:.2f}"),
    "accuracy": ("test accuracy", "{:.4f}"),
}
MISSING = "what is missing"
POINT = ["platform", "evidence", "dataset", "strategy", "threads"]


def experiment_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Build a table with one row per point and a text column per measure.

    The other columns are platform, evidence, dataset, strategy, threads, the factors that vary, rounds, and the reasons
    for rounds without a result.
    """
    tables = {
        "step_time": summaries.step_time(runs),
        "speedup": summaries.speedup(runs),
        "speedup_vs_tf_lock": summaries.speedup(runs, "tf_lock"),
        "accuracy": summaries.accuracy(runs),
    }
    points = tables["accuracy"]
    varying = [name for name in run_table.POINT if name not in POINT and points[name].nunique() > 1]
    varying = [name for name in varying if name not in run_table.CONTEXT and name not in PARAMETERS]
    parameters = [name for name in PARAMETERS if _is_shown(points, name)]
    table = points[[*POINT, *varying, *parameters, "rounds", "disturbed_rounds", "oversubscribed"]].copy()
    columns = [*varying, *parameters]
    table[columns] = table[columns].astype(object).fillna("")  # empty if the strategy, driver or model lacks the factor
    for measure, (title, form) in MEASURES.items():
        table[title] = [_interval(row, form) for row in tables[measure].itertuples()]
        table.loc[table["rounds"] == 0, title] = "–"
    return table.assign(**{MISSING: points["reason"].fillna("")})


def write_table(runs: pd.DataFrame, title: str, question: str, scale: str, path: Path) -> None:
    """Write the table of an experiment to `path` (.html) and next to it as .csv; `runs` may have any status."""
    table = experiment_table(runs)
    with pd.option_context("display.max_colwidth", None):  # otherwise pandas truncates the reasons
        html = table.to_html(index=False, border=0)
    notes = [NOTES[scale], *([MEASURED_IN_FULL] if (runs["measures"] == "full").any() else [])]
    write_text(path, PAGE.format(title=title, question=question, note=" ".join(filter(None, notes)), table=html))
    write_text(path.with_suffix(".csv"), table.to_csv(index=False))


def _is_shown(points: pd.DataFrame, parameter: str) -> bool:
    """Whether to show a parameter: variants of a strategy differ in it, or it names the emulated machine."""
    differs = points.groupby("strategy")[parameter].nunique(dropna=False).gt(1).any()
    return bool(differs) or (parameter == "profile" and bool(points[parameter].notna().any()))


def _interval(row: Any, form: str) -> str:
    estimate, low, high = row.estimate, row.low, row.high
    if pd.isna(estimate):
        return str(row.reason)
    if pd.isna(low):
        return form.format(estimate)
    return f"{form.format(estimate)} [{form.format(low)}, {form.format(high)}]"
