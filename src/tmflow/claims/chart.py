"""The numbers of a check as a chart: estimates with their intervals and the claimed ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from tmflow.base.text import from_to, several
from tmflow.charts import palette
from tmflow.charts.captions import EVIDENCE, Caption, dated
from tmflow.charts.figures import Figure
from tmflow.charts.layers import Layer, layered
from tmflow.charts.tooltips import tooltip
from tmflow.claims.origins import Judged
from tmflow.claims.verdict import Finding, Number, n_disturbed

ROW, DOWN = 40, 8  # px: height of a row, and offset of the interval below its middle
AROUND = 80  # px: the axis and its title
WIDE = 10  # ratios whose largest is more than this multiple of the smallest get a log axis
COLUMNS = ["what", "estimate", "low", "high", "rounds", "claimed_low", "claimed_high"]
NAMES = {"ratio": "Ratio", "fraction": "Share"}


def figure(judged: Judged, finding: Finding, title: str, revision: str) -> Figure:
    """Draw the numbers of one check of a claim, given by its `finding`, with caption and table.

    Raises ValueError if the finding has no numbers.
    """
    summary = pd.DataFrame(finding.numbers)
    return Figure(_chart(finding.numbers, title), _caption(judged, finding, title, revision), summary)


def _caption(judged: Judged, finding: Finding, title: str, revision: str) -> Caption:
    runs = pd.concat(finding.runs)
    counts = [number["rounds"] for number in finding.numbers]
    rounds = from_to(min(counts), max(counts), "round")
    disturbed = n_disturbed(runs)
    noise = f"; {disturbed} of {several(len(runs), 'run')} disturbed" if disturbed else ""
    machines = "the machine in a profile"
    return Caption(
        title,
        [
            f"On {judged.machine}; {EVIDENCE[judged.evidence].format(machines=machines)}; full scale.",
            f"{rounds}; bars: 95 % t intervals over rounds; shaded: the claimed range{noise}.",
            f"Claim {judged.id}: {judged.finding.verdict}; this check: {finding.verdict}.",
            dated(runs["started_at_utc"], revision),
        ],
    )


def _chart(numbers: Sequence[Number], title: str) -> alt.LayerChart:
    data = pd.DataFrame(numbers)[COLUMNS].astype({"low": float, "high": float})
    unit = numbers[0]["unit"]
    low, high, log = _range(data, unit)
    data["row"] = [f"{place:03}" for place in range(len(data))]
    data["from"] = data["claimed_low"].astype(float).fillna(low).clip(low, high)
    data["to"] = data["claimed_high"].astype(float).fillna(high).clip(low, high)
    data["start"], data["end"] = data["low"].clip(lower=low), data["high"].clip(upper=high)
    data["left"] = low
    scale = alt.Scale(domain=[low, high], nice=False, zero=False, type="log" if log else "linear")
    axis = alt.Axis(format="~g" if unit == "ratio" else "~%", tickCount=5)
    title_of_x = f"{NAMES[unit]}{' (log scale)' if log else ''}"

    def at(column: str) -> alt.X:
        return alt.X(f"{column}:Q", title=title_of_x, scale=scale, axis=axis)

    y = alt.Y("row:N", title=None, sort=None, axis=None, scale=alt.Scale(paddingInner=0.1, paddingOuter=0.05))
    base = Layer(data).encode(y=y)
    points = Layer().encode(x=at("estimate"), y=y, tooltip=tooltip(COLUMNS))
    has_interval = data["low"].notna()
    layers = [
        base.mark_rect(color=palette.NEUTRAL, opacity=0.25).encode(x=at("from"), x2=alt.X2("to:Q")),
        base.mark_rule(strokeWidth=2, color=palette.BLUE, yOffset=DOWN).encode(x=at("start"), x2=alt.X2("end:Q")),
        base.mark_text(align="left", dx=6, dy=DOWN - ROW / 2, fontSize=12, color=palette.NEUTRAL).encode(
            x=at("left"), text=alt.Text("what:N")
        ),
        *(
            points.properties(data=group).mark_point(
                filled=filled, size=70, opacity=1, color=palette.BLUE, yOffset=DOWN
            )
            for group, filled in ((data[has_interval], True), (data[~has_interval], False))  # hollow: a single round
            if len(group)
        ),
    ]
    says = f"{title}: {len(data)} numbers with their 95 % intervals, and the range that is claimed for each"
    return layered(says, *layers, height=ROW * len(data))


def height(finding: Finding) -> int:
    """The height of the chart in pixels."""
    return ROW * len(finding.numbers) + AROUND


def _range(data: pd.DataFrame, unit: str) -> tuple[float, float, bool]:
    """The range of the axis (all estimates and claimed bounds, most of the intervals), and whether it is log."""
    values = pd.concat([data["estimate"], data["claimed_low"], data["claimed_high"]]).astype(float).dropna()
    low, high = float(values.min()), float(values.max())
    log = low > 0 and high / low > WIDE
    if log:
        return low / 1.5, high * 1.5, True
    room = 0.6 * (high - low) or 0.05
    lowest, highest = data["low"].min(), data["high"].max()
    bottom = low if math.isnan(lowest) else max(lowest, low - room)
    top = high if math.isnan(highest) else min(highest, high + room)
    margin = 0.08 * (max(top, high) - min(bottom, low)) or 0.05
    bottom, top = min(bottom, low) - margin, max(top, high) + margin
    if unit == "fraction" and low >= 0 and high <= 1:
        bottom, top = max(bottom, 0.0), min(top, 1.0)
    return bottom, top, False
