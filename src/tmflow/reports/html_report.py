"""The report: one self-contained HTML page with all figures and tables of a study, for mail or print.

It is built from the files of the other steps (figures.json, the charts, the CSV tables), so the numbers agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tmflow.base import clock
from tmflow.base.errors import BadInput
from tmflow.base.files import write_text
from tmflow.charts import captions
from tmflow.charts.figures import svg
from tmflow.reports.experiment_table import MISSING

TEMPLATE = Path(__file__).with_name("report.html")
CHART = ".vl.json"
MEASURES = {"curve": "accuracy_curve"}  # kinds of figures that are named differently from their measure


class Picture(NamedTuple):
    """A figure of the page, with its caption as text; `csv` is a path relative to the page."""

    name: str
    title: str
    describes: str
    lines: list[str]
    svg: Markup
    csv: str


class Part(NamedTuple):
    """An experiment: its figures, its figures without data, and its table."""

    name: str
    figure: str | None
    question: str
    pictures: list[Picture]
    not_drawn: list[str]
    table: pd.DataFrame


class Gap(NamedTuple):
    """A reason for missing results, and the affected variants of each experiment."""

    reason: str
    concerns: dict[str, list[str]]


def write_report(
    results: Path, questions: Mapping[str, str], scale: str, path: Path, first: Sequence[str] = ()
) -> None:
    """Write the report on the experiments in `questions`, in that order, from their files in `results`.

    `first` are sections before the figures, as trusted HTML. Raises BadInput where another step has not written a file
    that the report is made of.
    """
    _require_files([results / "platform.json", *(file for name in questions for file in _files_of(results, name))])
    parts = [_part(results, name, question) for name, question in questions.items()]
    platform = json.loads((results / "platform.json").read_text(encoding="utf-8"))
    pages = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = pages.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        scale=captions.SCALES[scale],
        conclusive=scale == "full",
        first=[Markup(section) for section in first],
        parts=parts,
        gaps=list(gaps({part.name: part.table for part in parts})),
        machine=platform["display_name"],
        facts=platform["facts"],
        made_at=clock.utc_now(),
    )
    write_text(path, page)


def gaps(tables: Mapping[str, pd.DataFrame]) -> Iterator[Gap]:
    """Yield each reason why points have no result, once; `tables` are by experiment."""
    concerns: dict[str, dict[str, list[str]]] = {}
    for experiment, table in tables.items():
        without = table[table["rounds"] == 0]
        for row in without[["strategy", MISSING]].drop_duplicates().itertuples(index=False):
            concerns.setdefault(str(row[1]), {}).setdefault(experiment, []).append(str(row[0]))
    for reason, experiments in concerns.items():
        yield Gap(reason, experiments)


def _files_of(results: Path, name: str) -> tuple[Path, Path]:
    """The index of the figures of an experiment, and its table."""
    return results / "figures" / name / "figures.json", results / "tables" / f"{name}.csv"


def _require_files(paths: Iterable[Path]) -> None:
    for path in paths:
        if not path.is_file():
            raise BadInput(f"{path} is missing, and the report is made of it: `tmflow study run` makes all of them.")


def _part(results: Path, name: str, question: str) -> Part:
    folder = results / "figures" / name
    figures, csv = _files_of(results, name)
    index = json.loads(figures.read_text(encoding="utf-8"))
    table = pd.read_csv(csv, keep_default_na=False)
    return Part(
        name=name,
        figure=captions.figure_of_the_study(name),
        question=question,
        pictures=[_picture(folder, name, entry) for entry in index["figures"]],
        not_drawn=[_not_drawn(gap) for gap in index["not_drawn"]],
        table=table,
    )


def _picture(folder: Path, experiment: str, entry: Mapping[str, Any]) -> Picture:
    (name,) = (file.removesuffix(CHART) for file in entry["files"] if file.endswith(CHART))
    spec = json.loads((folder / f"{name}{CHART}").read_text(encoding="utf-8"))
    del spec["title"]
    where = name if name.startswith(experiment) else f"{experiment}-{name}"
    return Picture(
        name=where,
        title=entry["title"],
        describes=spec["description"],
        lines=entry["caption"],
        # Identifiers inside a picture must be unique, because the page has many pictures.
        svg=Markup(re.sub(r"\bclip([0-9]+)\b", rf"{where}-clip\1", svg(spec))),
        csv=f"figures/{experiment}/{name}.csv",
    )


def _not_drawn(gap: Mapping[str, Any]) -> str:
    what = captions.TITLES[MEASURES.get(gap["kind"], gap["kind"])]
    of = f" ({gap['panel']})" if gap["panel"] else ""
    return f"{what}{of}: {'; '.join(gap['reasons'])}."
