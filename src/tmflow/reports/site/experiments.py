"""The figures of an experiment as files of a site, and the data of its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tmflow.analysis.experiment_records import Loaded
from tmflow.base.files import write_bytes
from tmflow.charts import captions, figures
from tmflow.charts.figures import DRAWINGS, figures_of, gaps_of, slug
from tmflow.store import queries
from tmflow.store.frames import Source
from tmflow.study.config import Scale, Study
from tmflow.study.figure_selection import shown_of

FORMATS = ("svg", "csv", "vl.json")  # of the files of a figure


class Entry(NamedTuple):
    """A figure; `path` is the path of its files in the site's folder, without the extension."""

    id: str
    path: str
    measure: str
    panel: str
    platform: str
    evidence: str
    title: str
    describes: str
    caption: list[str]


class Album(NamedTuple):
    """An experiment with its figures and its gaps (kind, panel, reasons)."""

    name: str
    slug: str
    figure: str | None
    question: str
    runs_of: str | None
    figures: list[Entry]
    gaps: list[tuple[str, str, str]]
    platforms: dict[str, str]

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(figure.measure for figure in self.figures))

    @property
    def evidences(self) -> dict[str, str]:
        return {figure.evidence: figure.evidence for figure in self.figures}

    @property
    def panels(self) -> dict[str, str]:
        return {figure.panel: figure.panel for figure in self.figures if figure.panel}


def draw(source: Source, name: str, study: Study, scale: Scale, revision: str, site: Path) -> Album:
    """Write the files of every figure of an experiment under `site`/figures; return the data of its page.

    An experiment that is not in config.yaml gets every kind of figure that its runs have data for.
    """
    planned = study.experiments.get(name) if name in study.at(scale) else None
    runs_of = study.source(name) if planned else name
    records = queries.records(source, experiment=runs_of, scale=scale)
    only, shows = (planned.shown()["only"], planned.shows) if planned else ({}, None)
    records = records._replace(runs=shown_of(records.runs, only))
    drawn: list[Entry] = []
    gaps: list[tuple[str, str, str]] = []
    for kind in shows or figures.recorded(records):
        summary = DRAWINGS[kind].summarise(records)
        for label, figure in figures_of(kind, summary, revision, name):
            drawn.append(_entry(figure, kind, label, name, {entry.path for entry in drawn}))
            for extension, content in figure.files(FORMATS).items():
                write_bytes(site / f"{drawn[-1].path}.{extension}", content)
        gaps += [(kind, label, "; ".join(reasons)) for label, reasons in gaps_of(kind, summary)]
    return Album(
        name,
        slug(name),
        captions.figure_of_the_study(name),
        planned.question if planned else "",
        runs_of if runs_of != name else None,
        drawn,
        gaps,
        dict(_platforms(records)),
    )


def _entry(figure: figures.Figure, kind: str, label: str, experiment: str, taken: set[str]) -> Entry:
    first = figure.summary.iloc[0]
    stem = figures.stem(experiment, kind, label)
    path = base = f"figures/{slug(experiment)}/{stem}"
    again = 1
    while path in taken:  # labels may differ only in characters that file names lack
        again += 1
        path = f"{base}-{again}"
    return Entry(
        id=path.rpartition("/")[2],
        path=path,
        measure=kind,
        panel=label,
        platform=str(first["platform"]),
        evidence=str(first["evidence"]),
        title=figure.caption.title,
        describes=str(figure.chart.description),
        caption=figure.caption.lines,
    )


def _platforms(records: Loaded) -> Iterator[tuple[str, str]]:
    runs: Any = records.runs[["platform", "platform_name"]].drop_duplicates()
    return ((str(slug), f"{name} ({slug})") for slug, name in runs.itertuples(index=False))
