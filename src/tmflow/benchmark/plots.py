"""Plots of a benchmark: a figure per size and measure, a panel per guarantee, a line per variant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from tmflow.benchmark import text
from tmflow.benchmark.comparison import best_mutex
from tmflow.benchmark.rows import Copied, Timed, TimedVariant
from tmflow.benchmark.storage import Saved
from tmflow.benchmark.subjects import Gradient
from tmflow.benchmark.updates import Cell
from tmflow.charts import captions, palette

WIDTH, HEIGHT = 250, 300  # px of a panel
PANELS_IN_A_ROW = 2
DODGE = 0.025  # dodge between neighbours at one number of threads, as a share of a doubling
PROMISES = ("none", "element", "block", "tensor", "step")
MUTEX_LABEL = "best plain mutex"
COMPARED = "#222222"  # their colour: no variant has it


class Measure(NamedTuple):
    """The measure of a plot: its name in file names, and its titles."""

    name: str
    title: str
    better: str


US = Measure("us", "Microseconds per update", "lower is faster")
GB = Measure("gb", "GB/s moved by updates", "higher is faster")


class Plot(NamedTuple):
    """A plot with the distinguishing part of its file name."""

    name: str
    title: str
    chart: alt.VConcatChart


def plots(benchmark: Saved) -> Iterator[Plot]:
    """Plot microseconds per update and GB/s for every size and kind of gradient."""
    for elements, gradient in dict.fromkeys((row.elements, row.gradient) for row in benchmark.rows):
        for measure in (US, GB):
            title = f"{measure.title}, {elements:,} floats, gradient {gradient} ({measure.better})"
            name = f"{elements}-{measure.name}" + ("" if gradient == "constant" else f"-{gradient}")
            yield Plot(name, title, _plot(benchmark, elements, gradient, measure, title))


def frame(benchmark: Saved, elements: int, gradient: Gradient, measure: Measure) -> pd.DataFrame:
    """The data of a plot: a row per variant and number of threads, with the references in every panel."""
    rows = [row for row in benchmark.rows if (row.elements, row.gradient) == (elements, gradient)]
    promises = [p for p in PROMISES if any(isinstance(row, TimedVariant) and row.promise == p for row in rows)]
    points = [_point(row, row.name, row.promise, measure) for row in rows if isinstance(row, TimedVariant)]
    for threads in dict.fromkeys(row.threads for row in rows):
        cell = [row for row in rows if row.threads == threads]
        best = best_mutex(cell, Cell(elements, threads, gradient))
        compared: list[tuple[Timed | Copied, str]] = [(best, MUTEX_LABEL)] if best else []
        compared += [(row, "memcpy") for row in cell if isinstance(row, Copied)]
        points += [_point(row, name, promise, measure) for promise in promises for row, name in compared]
    return pd.DataFrame(points).sort_values(["promise", "variant", "threads"], ignore_index=True)


def _point(row: Timed | Copied, name: str, promise: str, measure: Measure) -> dict[str, Any]:
    us, low, high = (
        (row.memcpy_us, row.memcpy_low, row.memcpy_high)
        if isinstance(row, Copied)
        else (row.us_per_update, row.us_low, row.us_high)
    )
    bounds = [us if bound is None else bound for bound in (low, high)]
    if measure is GB:
        us, bounds = row.gb_per_s, [row.gb_per_s * us / bound for bound in reversed(bounds)]
    return {
        **{"variant": name, "promise": promise, "threads": row.threads, "oversubscribed": row.oversubscribed},
        **{"value": us, "low": bounds[0], "high": bounds[1]},
    }


def _plot(benchmark: Saved, elements: int, gradient: Gradient, measure: Measure, title: str) -> alt.VConcatChart:
    data = frame(benchmark, elements, gradient, measure)
    shown = alt.Scale(type="log", domain=[data["value"].min() / 1.3, data["value"].max() * 1.3], nice=False)
    panels = [
        _panel(data[data["promise"] == promise], promise, measure, shown)
        for promise in PROMISES
        if (data["promise"] == promise).any()
    ]
    lines = [panels[at : at + PANELS_IN_A_ROW] for at in range(0, len(panels), PANELS_IN_A_ROW)]
    scales: dict[str, Any] = {
        "color": "independent",
        "shape": "independent",
        "fill": "independent",
    }  # a legend per panel
    across = [alt.hconcat(*line, spacing=30).resolve_scale(**scales) for line in lines]
    grid: alt.VConcatChart = alt.vconcat(*across, spacing=30).resolve_scale(**scales)
    return captions.titled(grid, captions.Caption(title, _lines(benchmark, data)))


def _lines(benchmark: Saved, data: pd.DataFrame) -> list[str]:
    over = sorted(set(data.loc[data["oversubscribed"], "threads"]))
    marked = f"; hollow: more threads ({', '.join(map(str, over))}) than CPUs" if over else ""
    return [
        f"measured on real hardware: {text.machine(benchmark)}.",
        f"{text.protocol(benchmark)}.",
        f"Bars: 95 % intervals{marked}. Only equal promises compare, so each has a panel of its own. "
        f"Each name is followed by the variant's value at the most threads; dashed: {MUTEX_LABEL} and memcpy.",
    ]


def _panel(data: pd.DataFrame, promise: str, measure: Measure, shown: alt.Scale) -> alt.LayerChart:
    names = _ranked(data, measure)
    threads = sorted(set(data["threads"]))
    place = {name: 2 ** (DODGE * (at - len(names) / 2)) for at, name in enumerate(names)}
    data = data.assign(x=[t * place[v] for t, v in zip(data["threads"], data["variant"], strict=True)])
    labels = _labels(data, names)
    data = data.assign(label=data["variant"].map(labels), compared=data["variant"].isin((MUTEX_LABEL, "memcpy")))
    domain = [labels[name] for name in names]
    legend = alt.Legend(title=None, orient="right", labelLimit=330, labelFontSize=11, symbolOpacity=1)
    looks = _looks(names)
    colour = alt.Color("label:N", scale=alt.Scale(domain=domain, range=[one.colour for one in looks]), legend=legend)
    shape = alt.Shape("label:N", scale=alt.Scale(domain=domain, range=[one.shape for one in looks]), legend=legend)
    x = alt.X(
        "x:Q",
        title="threads (log scale)",
        scale=alt.Scale(type="log", domain=[threads[0] / 1.15, threads[-1] * 1.15], nice=False),
        axis=alt.Axis(values=threads, format="d", grid=False),
    )
    y = alt.Y("value:Q", title=f"{measure.title} (log scale)", scale=shown, axis=alt.Axis(format="~s", tickCount=6))
    if measure is US:
        y = y.axis(alt.Axis(format="~g", tickCount=6))
    base = alt.Chart(data).encode(x=x, y=y, color=colour)
    clipped = data.assign(low=data["low"].clip(*shown.domain), high=data["high"].clip(*shown.domain))
    return alt.LayerChart(
        layer=[
            base.mark_line(strokeWidth=1.5, clip=True).encode(
                strokeDash=alt.condition("datum.compared", alt.value([4, 3]), alt.value([1, 0]))
            ),
            alt.Chart(clipped).mark_rule(strokeWidth=1.5).encode(x=x, color=colour, y="low:Q", y2="high:Q"),
            base.mark_point(size=55, opacity=1, clip=True).encode(
                shape=shape,
                fill=alt.condition("datum.oversubscribed", alt.value("white"), colour),
            ),
        ],
        title=alt.TitleParams(f"promise: {promise}", anchor="start", fontSize=13),
        width=WIDTH,
        height=HEIGHT,
    )


def _ranked(data: pd.DataFrame, measure: Measure) -> list[str]:
    """The names, sorted by the value at the most threads, best first."""
    last = data.sort_values("threads").groupby("variant")["value"].last()
    return [str(name) for name in last.sort_values(ascending=measure is US).index]


def _labels(data: pd.DataFrame, names: Sequence[str]) -> dict[str, str]:
    last = data.sort_values("threads").groupby("variant")["value"].last()
    return {name: f"{name}  {_digits(float(last[name]))}" for name in names}


def _digits(value: float) -> str:
    """Format a number with three significant digits, never in powers of ten."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def _looks(names: Sequence[str]) -> list[palette.Look]:
    compared = {MUTEX_LABEL: palette.Look(COMPARED, "circle"), "memcpy": palette.Look(COMPARED, "square")}
    variants = [name for name in names if name not in compared]
    variant_looks = dict(zip(variants, palette.looks(name.replace(":", " ") for name in variants), strict=True))
    return [(compared | variant_looks)[name] for name in names]
