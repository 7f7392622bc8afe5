"""Plots of a benchmark: a figure per size and measure, a panel per guarantee, a line per variant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from tmflow.benchmark import text
from tmflow.benchmark.comparison import best_mutex
from tmflow.benchmark.plan import Gradient
from tmflow.benchmark.storage import Copied, Saved, Timed, TimedVariant
from tmflow.charts import captions, palette

WIDTH, HEIGHT = 250, 300  # px of a panel
PANELS_IN_A_ROW = 2
DODGE = 0.025  # dodge between neighbours at one number of threads, as a share of a doubling
CONSISTENCY_LEVELS = ("none", "element", "block", "tensor", "step")
MUTEX_LABEL = "best plain mutex"
# The looks of the references, in a colour that no variant has.
COMPARED = {MUTEX_LABEL: palette.Look("#222222", "circle"), "memcpy": palette.Look("#222222", "square")}


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
    """Plot microseconds per update and GB/s for every size and kind of gradient with a measured variant."""
    variants = [row for row in benchmark.rows if isinstance(row, TimedVariant)]
    for elements, gradient in dict.fromkeys((row.elements, row.gradient) for row in variants):
        for measure in (US, GB):
            title = f"{measure.title}, {elements:,} floats, gradient {gradient} ({measure.better})"
            name = f"{elements}-{measure.name}" + ("" if gradient == "constant" else f"-{gradient}")
            yield Plot(name, title, _plot(benchmark, elements, gradient, measure, title))


def frame(benchmark: Saved, elements: int, gradient: Gradient, measure: Measure) -> pd.DataFrame:
    """The data of a plot: a row per variant and number of threads, with the references in every panel."""
    rows = [row for row in benchmark.rows if (row.elements, row.gradient) == (elements, gradient)]
    consistencies = [
        p for p in CONSISTENCY_LEVELS if any(isinstance(row, TimedVariant) and row.consistency == p for row in rows)
    ]
    points = [_point(row, row.name, row.consistency, measure) for row in rows if isinstance(row, TimedVariant)]
    for threads in dict.fromkeys(row.threads for row in rows):
        cell = [row for row in rows if row.threads == threads]
        best = best_mutex(cell)
        compared: list[tuple[Timed | Copied, str]] = [(best, MUTEX_LABEL)] if best else []
        compared += [(row, "memcpy") for row in cell if isinstance(row, Copied)]
        points += [_point(row, name, consistency, measure) for consistency in consistencies for row, name in compared]
    return pd.DataFrame(points).sort_values(["consistency", "variant", "threads"], ignore_index=True)


def _point(row: Timed | Copied, name: str, consistency: str, measure: Measure) -> dict[str, Any]:
    us, low, high = (
        (row.memcpy_us, row.memcpy_low, row.memcpy_high)
        if isinstance(row, Copied)
        else (row.us_per_update, row.us_low, row.us_high)
    )
    bounds = [us if bound is None else bound for bound in (low, high)]
    if measure is GB:
        us, bounds = row.gb_per_s, [row.gb_per_s * us / bound for bound in reversed(bounds)]
    return {
        **{"variant": name, "consistency": consistency, "threads": row.threads, "oversubscribed": row.oversubscribed},
        **{"value": us, "low": bounds[0], "high": bounds[1]},
    }


def _plot(benchmark: Saved, elements: int, gradient: Gradient, measure: Measure, title: str) -> alt.VConcatChart:
    data = frame(benchmark, elements, gradient, measure)
    shown = alt.Scale(type="log", domain=[data["value"].min() / 1.3, data["value"].max() * 1.3], nice=False)
    panels = [
        _panel(panel_data, consistency, measure, shown)
        for consistency in CONSISTENCY_LEVELS
        if len(panel_data := data[data["consistency"] == consistency])
    ]
    legend_per_panel: dict[str, Any] = dict.fromkeys(("color", "shape", "fill"), "independent")
    lines = [panels[at : at + PANELS_IN_A_ROW] for at in range(0, len(panels), PANELS_IN_A_ROW)]
    across = [alt.hconcat(*line, spacing=30).resolve_scale(**legend_per_panel) for line in lines]
    grid: alt.VConcatChart = alt.vconcat(*across, spacing=30).resolve_scale(**legend_per_panel)
    over = sorted(set(data.loc[data["oversubscribed"], "threads"]))
    marked = f"; hollow: more threads ({', '.join(map(str, over))}) than CPUs" if over else ""
    caption = [
        f"measured on real hardware: {text.machine(benchmark)}.",
        f"{text.protocol(benchmark)}.",
        f"Bars: 95 % intervals{marked}. Speeds compare only at equal consistency, so each level has a panel. "
        f"Each name is followed by the variant's value at the most threads; dashed: {MUTEX_LABEL} and memcpy.",
    ]
    return captions.titled(grid, captions.Caption(title, caption))


def _panel(data: pd.DataFrame, consistency: str, measure: Measure, shown: alt.Scale) -> alt.LayerChart:
    last = data.sort_values("threads").groupby("variant")["value"].last().sort_values(ascending=measure is US)
    names = [str(name) for name in last.index]  # by the value at the most threads, best first
    labels = {name: f"{name}  {_digits(value)}" for name, value in zip(names, last, strict=True)}
    threads = sorted(set(data["threads"]))
    place = {name: 2 ** (DODGE * (at - len(names) / 2)) for at, name in enumerate(names)}
    data = data.assign(
        x=data["threads"] * data["variant"].map(place),
        label=data["variant"].map(labels),
        compared=data["variant"].isin(COMPARED),
    )
    variants = [name for name in names if name not in COMPARED]
    looks = COMPARED | dict(zip(variants, palette.looks(name.replace(":", " ") for name in variants), strict=True))
    domain = list(labels.values())
    legend = alt.Legend(title=None, orient="right", labelLimit=330, labelFontSize=11, symbolOpacity=1)
    colours = alt.Scale(domain=domain, range=[looks[name].colour for name in names])
    shapes = alt.Scale(domain=domain, range=[looks[name].shape for name in names])
    colour = alt.Color("label:N", scale=colours, legend=legend)
    x = alt.X(
        "x:Q",
        title="threads (log scale)",
        scale=alt.Scale(type="log", domain=[threads[0] / 1.15, threads[-1] * 1.15], nice=False),
        axis=alt.Axis(values=threads, format="d", grid=False),
    )
    axis = alt.Axis(format="~g" if measure is US else "~s", tickCount=6)
    y = alt.Y("value:Q", title=f"{measure.title} (log scale)", scale=shown, axis=axis)
    base = alt.Chart(data).encode(x=x, y=y, color=colour)
    clipped = data.assign(low=data["low"].clip(*shown.domain), high=data["high"].clip(*shown.domain))
    return alt.LayerChart(
        layer=[
            base.mark_line(strokeWidth=1.5, clip=True).encode(
                strokeDash=alt.condition("datum.compared", alt.value([4, 3]), alt.value([1, 0]))
            ),
            alt.Chart(clipped).mark_rule(strokeWidth=1.5).encode(x=x, color=colour, y="low:Q", y2="high:Q"),
            base.mark_point(size=55, opacity=1, clip=True).encode(
                shape=alt.Shape("label:N", scale=shapes, legend=legend),
                fill=alt.condition("datum.oversubscribed", alt.value("white"), colour),
            ),
        ],
        title=alt.TitleParams(f"consistency: {consistency}", anchor="start", fontSize=13),
        width=WIDTH,
        height=HEIGHT,
    )


def _digits(value: float) -> str:
    """Format a number with three significant digits, never in powers of ten."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
