"""Charts to files: SVG, PNG, Vega-Lite and the very numbers that are drawn, as CSV. Needs no network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
import vl_convert

from tmflow import captions, charts, summaries
from tmflow.captions import Caption
from tmflow.files import write_bytes, write_json

PNG_SCALE = 2  # pixels for each px of the chart
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
FORMATS = {"svg": "image/svg+xml", "png": "image/png", "csv": "text/csv", "vl.json": "application/json"}
OVER_THREADS, AT_ONE_COUNT = summaries.SERIES, summaries.VARIANT


class Figure(NamedTuple):
    """A chart with its caption, and the summary that it draws."""

    chart: alt.LayerChart
    caption: Caption
    summary: pd.DataFrame

    def spec(self) -> dict[str, Any]:
        """The chart with its caption as Vega-Lite, data inside."""
        with alt.data_transformers.enable("default", max_rows=None):
            spec: dict[str, Any] = captions.titled(self.chart, self.caption).to_dict()
        return spec

    def file(self, extension: str) -> bytes:
        """The content of the figure's file with this extension, a key of `FORMATS`."""
        if extension == "csv":
            return self.summary.to_csv(index=False).encode()
        if extension == "svg":
            return svg(self.spec()).encode()
        if extension == "png":
            return vl_convert.vegalite_to_png(self.spec(), vl_version=VEGA_LITE, scale=PNG_SCALE)
        return (json.dumps(self.spec(), indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def svg(spec: dict[str, Any]) -> str:
    """A Vega-Lite chart, data inside, as SVG: the same chart is always the same text."""
    text: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    numbers = dict.fromkeys(re.findall(r"\bclip([0-9]+)\b", text))  # counted on from chart to chart
    place = {number: at for at, number in enumerate(numbers, 1)}
    return re.sub(r"\bclip([0-9]+)\b", lambda found: f"clip{place[found[1]]}", text)


class Drawing(NamedTuple):
    """A way to draw: the chart, and the columns that may differ inside one panel of it."""

    chart: Callable[[pd.DataFrame], alt.LayerChart]
    within: tuple[str, ...] = OVER_THREADS


DRAWINGS = {
    "speedup": Drawing(charts.speedup),
    "speedup_vs_tf_lock": Drawing(charts.speedup),
    "step_time": Drawing(charts.step_time),
    "accuracy": Drawing(charts.accuracy),
    "commits": Drawing(charts.commits),
    "curve": Drawing(charts.curve, AT_ONE_COUNT),
    "staleness": Drawing(charts.staleness, AT_ONE_COUNT),
}


def figures_of(kind: str, summary: pd.DataFrame, revision: str) -> Iterator[tuple[str, Figure]]:
    """A figure for each panel of a summary that has something to draw, with the panel's label; `kind` of `DRAWINGS`."""
    drawing = DRAWINGS[kind]
    for label, panel in summaries.panels(summary, drawing.within):
        if panel["estimate"].notna().any():
            yield label, Figure(drawing.chart(panel), captions.caption(panel, revision, label), panel)


def gaps_of(kind: str, summary: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """The label of each panel of a summary that has nothing to draw, and the reasons; `kind` of `DRAWINGS`."""
    if summary.empty:
        yield "", ["no run measured it"]
    for label, panel in summaries.panels(summary, DRAWINGS[kind].within):
        if panel["estimate"].isna().all():
            yield label, sorted(set(panel["reason"].dropna()))


def export(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.svg, stem.png, stem.csv and stem.vl.json; each appears whole or not at all."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    for extension in FORMATS:
        paths.append(stem.with_name(f"{stem.name}.{extension}"))
        write_bytes(paths[-1], figure.file(extension))
    return paths


def draw_experiment(
    runs: pd.DataFrame,
    experiment: str,
    out_dir: Path,
    revision: str,
    *,
    kinds: Collection[str] | None = None,
    curve_points: pd.DataFrame | None = None,
    staleness_counts: pd.DataFrame | None = None,
    transactions: pd.DataFrame | None = None,
) -> Path:
    """Write every figure of an experiment under `out_dir`, and figures.json: what was drawn, and what was not and why.

    `runs` are of any status; `kinds` are those of `DRAWINGS` to draw, None for all that there are. `curve_points`,
    `staleness_counts` and `transactions` are as `summaries.curve`, `summaries.staleness` and `summaries.commits` take
    them; None or empty where nothing was measured. Returns the path of figures.json.
    """
    runs = runs[runs["experiment"] == experiment]
    tables = {
        "speedup": summaries.speedup(runs),
        "speedup_vs_tf_lock": summaries.speedup(runs, "tf_lock"),
        "step_time": summaries.step_time(runs),
        "accuracy": summaries.accuracy(runs),
    }
    if transactions is not None and not transactions.empty:
        tables["commits"] = summaries.commits(runs, transactions)
    if curve_points is not None and not curve_points.empty:
        tables["curve"] = summaries.curve(runs, curve_points)
    if staleness_counts is not None and not staleness_counts.empty:
        together = runs[runs["threads"] > 1]  # a lone worker has no others to be late behind
        tables["staleness"] = summaries.staleness(together, staleness_counts)
    index: dict[str, Any] = {"experiment": experiment, "revision": revision, "figures": [], "not_drawn": []}
    for kind, summary in tables.items():
        if kinds is not None and kind not in kinds:
            continue
        for label, figure in figures_of(kind, summary, revision):
            paths = export(figure, out_dir / slug(kind, label))
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
    path = out_dir / "figures.json"
    write_json(path, index)
    return path


def slug(*parts: str) -> str:
    """A file name without extension: the parts that are not empty, in letters, digits, '_' and '-'."""
    return "-".join(re.sub(r"[^A-Za-z0-9_.]+", "-", part).strip("-") for part in parts if part)
