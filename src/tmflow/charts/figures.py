"""Figures and their files: SVG, PNG, Vega-Lite, and the numbers drawn as CSV and JSON. Needs no network."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
import vl_convert

from tmflow.analysis import summaries
from tmflow.analysis.elements import with_elements
from tmflow.analysis.run_table import SERIES, VARIANT, Records
from tmflow.analysis.variants import panels
from tmflow.base.files import whole_folder, write_bytes, write_json
from tmflow.base.text import csv_frame
from tmflow.charts import captions, json_table, measure_charts
from tmflow.charts.captions import NO_TITLES, Caption, Titles
from tmflow.charts.layers import Chart
from tmflow.charts.layout import varied_factor
from tmflow.charts.marks import Published
from tmflow.spec.factors import DRIVER_FACTORS

PNG_SCALE = 2  # pixels for each px of the chart
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
LONGEST_NAME = 200  # characters of the name of a file without its extension
FORMATS = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "csv": "text/csv",
    "json": "application/json",
    "vl.json": "application/json",
}
TIME_TO_ACCURACY, TIME_OVER_LOCK = "time_to_accuracy", "time_over_lock"
AT_ONE_COUNT, OF_ONE_VARIANT = VARIANT, ("threads",)


@dataclass(frozen=True)
class Figure:
    """A chart with its caption and the summary that it shows."""

    chart: Chart
    caption: Caption
    summary: pd.DataFrame

    def _repr_svg_(self) -> str:
        """The figure as SVG, for notebooks."""
        return svg(self.spec())

    def spec(self) -> dict[str, Any]:
        """The chart with its caption as Vega-Lite, with the data inside."""
        spec: dict[str, Any] = captions.titled(self.chart, self.caption).to_dict()
        return spec

    @cached_property
    def drawn(self) -> dict[str, Any]:
        """The chart without its caption as Vega-Lite, with the data inside, for pages; do not modify it.

        It is not validated against the schema of Vega-Lite, which would double the time; `spec` is.
        """
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        return spec

    def document(self) -> dict[str, Any]:
        """The numbers drawn, as a JSON document (`json_table.document`) with title and caption."""
        return json_table.document(
            self.summary,
            "tmflow-figure",
            {"title": self.caption.title, "caption": self.caption.lines, "describes": str(self.chart.description)},
        )

    def at(self, revision: str) -> Figure:
        """The figure for another revision of the database with the same runs; the drawing is reused."""
        other = replace(self, caption=self.caption.at(revision))
        vars(other)["drawn"] = self.drawn
        return other

    def file(self, extension: str) -> bytes:
        """The content of the figure's file with this extension, a key of `FORMATS`."""
        return self.files([extension])[extension]

    def files(self, extensions: Collection[str]) -> dict[str, bytes]:
        """The content of several files; the specification, the slowest step, is built once."""
        spec = self.spec() if set(extensions) - {"csv", "json"} else {}
        return {extension: self._content(spec, extension) for extension in extensions}

    def _content(self, spec: dict[str, Any], extension: str) -> bytes:
        if extension == "csv":
            return csv_frame(self.summary).to_csv(index=False).encode()
        if extension == "json":
            return (json.dumps(self.document(), allow_nan=False) + "\n").encode()
        if extension == "svg":
            return svg(spec).encode()
        if extension == "png":
            return vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=PNG_SCALE)
        return (json.dumps(spec, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def svg(spec: dict[str, Any]) -> str:
    """Render a Vega-Lite chart as SVG; equal charts give equal text."""
    text: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    numbers = dict.fromkeys(re.findall(r"\bclip([0-9]+)\b", text))  # vl_convert numbers them across charts
    place = {number: at for at, number in enumerate(numbers, 1)}
    return re.sub(r"\bclip([0-9]+)\b", lambda match: f"clip{place[match[1]]}", text)


class Drawing(NamedTuple):
    """A kind of figure: its measure of the records, and the columns that may differ within one panel.

    `within` is None for lines of the variants over the factor that the summary varies (`layout.varied_factor`).
    `needs` names a table of the records; if that table is empty, the figure is neither drawn nor reported as missing.
    """

    measure: Callable[[Records], pd.DataFrame]
    needs: str = "runs"
    within: tuple[str, ...] | None = None

    def panels(self, summary: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield the label and the rows of each panel (see `variants.panels`)."""
        x = varied_factor(summary) if self.within is None and len(summary) else "threads"
        if x != "threads" and summary["measure"].iloc[0] == "speedup":
            summary = summary[summary["threads"] > 1]  # with one worker it is 1 by definition
        yield from panels(summary, (*VARIANT, x) if self.within is None else self.within)

    def summarise(self, records: Records) -> pd.DataFrame:
        """The summary, with the share of elements that transactions updated (see `with_elements`)."""
        return with_elements(self.measure(records), records)


def _with_others(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of several workers: a single one has no staleness."""
    return runs[runs["threads"] > 1]


DRAWINGS = {
    "speedup": Drawing(lambda of: summaries.speedup(of.runs)),
    "speedup_vs_tf_lock": Drawing(lambda of: summaries.speedup(of.runs, "tf_lock")),
    "step_time": Drawing(lambda of: summaries.step_time(of.runs)),
    TIME_OVER_LOCK: Drawing(lambda of: summaries.time_over_lock(of.runs), within=AT_ONE_COUNT),
    "accuracy": Drawing(lambda of: summaries.accuracy(of.runs)),
    "commits": Drawing(lambda of: summaries.commits(of.runs, of.transactions), "transactions"),
    "failures": Drawing(
        lambda of: summaries.failures(of.runs, of.transactions, of.aborts, "class"), "aborts", OF_ONE_VARIANT
    ),
    "causes": Drawing(lambda of: summaries.failures(of.runs, of.transactions, of.aborts), "aborts", OF_ONE_VARIANT),
    TIME_TO_ACCURACY: Drawing(lambda of: summaries.time_to_accuracy(of.runs, of.curves), "curves"),
    "curve": Drawing(lambda of: summaries.curve(of.runs, of.curves), "curves", AT_ONE_COUNT),
    "staleness": Drawing(
        lambda of: summaries.staleness(_with_others(of.runs), of.staleness), "staleness", AT_ONE_COUNT
    ),
    "mean_staleness": Drawing(lambda of: summaries.mean_staleness(_with_others(of.runs), of.staleness), "staleness"),
    "p95_staleness": Drawing(lambda of: summaries.p95_staleness(_with_others(of.runs), of.staleness), "staleness"),
    "lost": Drawing(lambda of: summaries.lost(of.runs, of.full), "full", SERIES),
    "torn": Drawing(lambda of: summaries.torn(of.runs, of.full), "full", SERIES),
    "inconsistent": Drawing(lambda of: summaries.inconsistent(of.runs, of.full), "full", SERIES),
    "lock_waited": Drawing(lambda of: summaries.lock_waited(of.runs, of.full), "full"),
    "lock_held": Drawing(lambda of: summaries.lock_held(of.runs, of.full), "full"),
    "phases": Drawing(lambda of: summaries.phases(of.runs, of.phases), "phases", (*SERIES, *DRIVER_FACTORS["cluster"])),
    "step_transfers": Drawing(lambda of: summaries.step_transfers(of.runs, of.phases), "phases"),
    "step_bytes": Drawing(lambda of: summaries.step_bytes(of.runs, of.phases), "phases"),
}


def drawing_of(kind: str, target: float | None = None) -> Drawing:
    """The drawing of a kind; target: the test accuracy of `time_to_accuracy`, a fraction, instead of the usual ones."""
    drawing = DRAWINGS[kind]
    if kind != TIME_TO_ACCURACY or target is None:
        return drawing
    return drawing._replace(measure=lambda of: summaries.time_to_accuracy(of.runs, of.curves, [target]))


def figures_of(
    kind: str,
    summary: pd.DataFrame,
    revision: str,
    experiment: str | None = None,
    published: Sequence[Published] = (),
    titles: Titles = NO_TITLES,
) -> Iterator[tuple[str, Figure]]:
    """Yield the label and figure of each panel of a summary that has something to draw; `kind` is a key of `DRAWINGS`.

    `experiment` is the one that the figures belong to, if there is exactly one; the runs may be those of another.
    `published`: numbers of the study's text for this kind of figure.
    """
    for label, panel in drawable(kind, summary):
        yield label, figure_of(label, panel, revision, experiment, published, titles)


def drawable(kind: str, summary: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the label and rows of each panel with something to draw; `kind` is a key of `DRAWINGS`."""
    for label, panel in DRAWINGS[kind].panels(summary):
        if panel["estimate"].notna().any():
            yield label, panel


def figure_of(
    label: str,
    panel: pd.DataFrame,
    revision: str,
    experiment: str | None = None,
    published: Sequence[Published] = (),
    titles: Titles = NO_TITLES,
) -> Figure:
    """The figure of one panel that has something to draw; parameters as for `figures_of`."""
    if not ((panel["scale"] == "full") & (panel["dataset"] == "mnist")).all():
        published = ()  # what the study measured is not to be compared with these runs
    numbers = "; ".join(number.words for number in published)
    quoted = [f"Numbers of the study, from its machine (dotted, if within the axes): {numbers}."] if published else []
    also = [*quoted, *measure_charts.notes(panel)]
    return Figure(
        measure_charts.draw(panel, published),
        captions.caption(panel, revision, label, experiment, also, titles),
        panel,
    )


def gaps_of(kind: str, summary: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """Yield the label and the reasons of each panel with nothing to draw; `kind` is a key of `DRAWINGS`."""
    if summary.empty:
        yield "", ["no run measured it"]
    for label, panel in DRAWINGS[kind].panels(summary):
        if panel["estimate"].isna().all():
            yield label, sorted(set(panel["reason"].dropna()))


def recorded(records: Records) -> list[str]:
    """The kinds of figures (keys of `DRAWINGS`) for which the records have data."""
    return [kind for kind, drawing in DRAWINGS.items() if _is_recorded(kind, drawing, records)]


def _is_recorded(kind: str, drawing: Drawing, records: Records) -> bool:
    if kind == TIME_OVER_LOCK:
        return bool(summaries.grains(records.runs).notna().any())
    return drawing.needs == "runs" or len(getattr(records, drawing.needs)) > 0


def export(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.svg, stem.png, stem.csv, stem.json and stem.vl.json, each atomically; return their paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    for extension, content in figure.files(FORMATS).items():
        paths.append(stem.with_name(f"{stem.name}.{extension}"))
        write_bytes(paths[-1], content)
    return paths


def draw_experiment(
    records: Records,
    experiment: str,
    out_dir: Path,
    revision: str,
    kinds: Sequence[str] | None = None,
    published: Callable[[str], Sequence[Published]] = lambda _: (),
    titles: Titles = NO_TITLES,
) -> Path:
    """Write every figure of an experiment under `out_dir`, and figures.json, which lists figures and reasons for gaps.

    `kinds` are keys of `DRAWINGS`; None draws all kinds that have data. The records may be those of another
    experiment; the captions then say so. `published` returns the numbers of the study's text for a kind. Returns the
    path of figures.json.
    """
    index: dict[str, Any] = {"experiment": experiment, "revision": revision, "figures": [], "not_drawn": []}
    with whole_folder(out_dir) as folder:
        for kind in recorded(records) if kinds is None else kinds:
            summary = DRAWINGS[kind].summarise(records)
            for label, figure in figures_of(kind, summary, revision, experiment, published(kind), titles):
                paths = export(figure, folder / stem(experiment, kind, label))
                index["figures"].append(
                    {
                        "kind": kind,
                        "panel": label,
                        "title": figure.caption.title,
                        "caption": figure.caption.lines,
                        "files": [path.name for path in paths],
                    }
                )
            for label, reasons in gaps_of(kind, summary):
                index["not_drawn"].append({"kind": kind, "panel": label, "reasons": reasons})
        write_json(folder / "figures.json", index)
    return out_dir / "figures.json"


def stem(experiment: str, kind: str, label: str) -> str:
    """The file name of a figure; it begins with the experiment if that repeats a figure of the study."""
    return slug(experiment if captions.figure_of_the_study(experiment) else "", kind, label)


def slug(*parts: str) -> str:
    """Join the non-empty parts into a file name of letters, digits, '_', '.' and '-', without extension.

    A long one ends with a hash in place of the rest: file systems allow 255 characters, with the extension.
    """
    name = "-".join(re.sub(r"[^A-Za-z0-9_.]+", "-", part).strip("-") for part in parts if part)
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
