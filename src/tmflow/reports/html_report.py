"""The report: one self-contained HTML page with all figures and tables of a study, for mail or print; and its tables.

The page is built from the files of the other steps (figures.json, the charts, the CSV tables), so the numbers agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tmflow.analysis import run_table, summaries
from tmflow.analysis.versions import left_out_sentence
from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.base.files import write_text
from tmflow.charts import captions
from tmflow.charts.captions import MEASURED_IN_FULL
from tmflow.charts.figures import svg
from tmflow.spec.strategies import PARAMETERS

TEMPLATE = Path(__file__).with_name("report.html")
CHART = ".vl.json"


def write_report(
    results: Path, questions: Mapping[str, str], scale: str, path: Path, first: Sequence[str] = ()
) -> None:
    """Write the report on the experiments in `questions`, in that order, from their files in `results`.

    `first` are sections before the figures, as trusted HTML. Raises BadInput if a file that another step writes is
    missing.
    """
    indexes = {name: results / "figures" / name / "figures.json" for name in questions}
    csvs = {name: results / "tables" / f"{name}.csv" for name in questions}
    for file in (results / "platform.json", *indexes.values(), *csvs.values()):
        if not file.is_file():
            raise BadInput(f"{file} is missing, and the report is made of it: `tmflow study run` makes all of them.")
    tables = {name: pd.read_csv(csv, keep_default_na=False) for name, csv in csvs.items()}
    platform = json.loads((results / "platform.json").read_text(encoding="utf-8"))
    pages = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = pages.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        scale=captions.SCALES[scale],
        conclusive=scale == "full",
        first=[Markup(section) for section in first],
        parts=[_part(name, question, indexes[name], tables[name]) for name, question in questions.items()],
        titles=captions.TITLES,
        gaps=list(gaps(tables)),
        machine=platform["display_name"],
        facts=platform["facts"],
        made_at=utc_now(),
    )
    write_text(path, page)


def gaps(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield each reason why points have no result, once, and the affected strategies of each experiment."""
    if not tables:
        return
    without = pd.concat([table[table["rounds"] == 0].assign(of=name) for name, table in tables.items()])
    for reason, points in without[["of", "strategy", MISSING]].drop_duplicates().groupby(MISSING, sort=False):
        yield str(reason), {str(of): list(at["strategy"]) for of, at in points.groupby("of", sort=False)}


def _part(name: str, question: str, index: Path, table: pd.DataFrame) -> dict[str, Any]:
    """An experiment for the template: its figures, its figures without data, and its table."""
    drawn = json.loads(index.read_text(encoding="utf-8"))
    return {
        "name": name,
        "figure": captions.figure_of_the_study(name),
        "question": question,
        "pictures": [_picture(index.parent, name, entry) for entry in drawn["figures"]],
        "not_drawn": drawn["not_drawn"],
        "table": table,
    }


def _picture(folder: Path, experiment: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """A figure for the template, with its caption as text; `csv` is a path relative to the page."""
    (name,) = (file.removesuffix(CHART) for file in entry["files"] if file.endswith(CHART))
    spec = json.loads((folder / f"{name}{CHART}").read_text(encoding="utf-8"))
    del spec["title"]
    where = name if name.startswith(experiment) else f"{experiment}-{name}"
    return {
        "name": where,
        "title": entry["title"],
        "describes": spec["description"],
        "lines": entry["caption"],
        # Identifiers inside a picture must be unique, because the page has many pictures.
        "svg": Markup(re.sub(r"\bclip([0-9]+)\b", rf"{where}-clip\1", svg(spec))),
        "csv": f"figures/{experiment}/{name}.csv",
    }


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
QUICK = "Quick scale: a smoke test with few rounds and steps; nothing can be concluded from it."
# The measures of a table: the title of the column, the summary, and the format of its numbers.
MEASURES = (
    ("time per step, us", summaries.step_time, "{:.1f}"),
    ("speedup over itself with one worker", summaries.speedup, "{:.2f}"),
    ("speedup over tf_lock with one worker", partial(summaries.speedup, baseline="tf_lock"), "{:.2f}"),
    ("test accuracy", summaries.accuracy, "{:.4f}"),
)
MISSING = "what is missing"
POINT = ["platform", "evidence", "dataset", "strategy", "threads"]


def experiment_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Build a table with one row per point and a text column per measure.

    The other columns are platform, evidence, dataset, strategy, threads, the factors that vary, rounds, and the reasons
    for rounds without a result.
    """
    points = summaries.accuracy(runs)
    excluded = (*POINT, *run_table.CONTEXT, *PARAMETERS)
    varying = [name for name in run_table.POINT if name not in excluded and points[name].nunique() > 1]
    of_strategies = points.groupby("strategy")[[*PARAMETERS]].nunique(dropna=False)
    names_machine = points["profile"].notna().any()  # which machine was emulated
    varying += [n for n in PARAMETERS if of_strategies[n].gt(1).any() or (n == "profile" and names_machine)]
    table = points[[*POINT, *varying, "rounds", "disturbed_rounds", "oversubscribed"]].copy()
    table[varying] = table[varying].astype(object).fillna("")  # empty if the strategy, driver or model lacks the factor
    for title, summarise, form in MEASURES:
        table[title] = [_interval(row, form) for row in summarise(runs).itertuples()]
        table.loc[table["rounds"] == 0, title] = "–"
    return table.assign(**{MISSING: points["reason"].fillna("")})


def write_table(runs: pd.DataFrame, title: str, question: str, scale: str, path: Path) -> None:
    """Write the table of an experiment to `path` (.html) and next to it as .csv; `runs` may have any status."""
    table = experiment_table(runs)
    with pd.option_context("display.max_colwidth", None):  # otherwise pandas truncates the reasons
        html = table.to_html(index=False, border=0)
    notes = [
        QUICK if scale == "quick" else None,
        MEASURED_IN_FULL if (runs["measures"] == "full").any() else None,
        left_out_sentence(runs),
    ]
    write_text(path, PAGE.format(title=title, question=question, note=" ".join(filter(None, notes)), table=html))
    write_text(path.with_suffix(".csv"), table.to_csv(index=False))


def _interval(row: Any, form: str) -> str:
    estimate, low, high = row.estimate, row.low, row.high
    if pd.isna(estimate):
        return str(row.reason)
    if pd.isna(low):
        return form.format(estimate)
    return f"{form.format(estimate)} [{form.format(low)}, {form.format(high)}]"
