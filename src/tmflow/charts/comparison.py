"""The chart of a comparison with A: B, C or D relative to A over the number of workers, with intervals."""

from __future__ import annotations

from textwrap import shorten

import altair as alt
import numpy as np
import pandas as pd

from tmflow.analysis.comparison import PROCESSES, WITHIN, Measure, Sides, joint_sentence, pairing_sentence
from tmflow.analysis.stats import SAME
from tmflow.base.text import several, workers
from tmflow.charts import palette
from tmflow.charts.axes import Range
from tmflow.charts.captions import MEASURED_IN_FULL, REASON, TEST_BAR, Caption, dated, provenance, workload
from tmflow.charts.layers import Chart, Layer
from tmflow.charts.layout import split_facets
from tmflow.charts.marks import along_factor, lines, values_axis
from tmflow.charts.series import of_variants
from tmflow.charts.tooltips import workers_of

TITLES: dict[str, str] = {"speed": "Speed of {} relative to A", "accuracy": "Accuracy of {} minus A"}
LEAST = {"speed": 1.15, "accuracy": 0.005}  # smallest extent of the axis on both sides of no difference
ROOM = 0.08  # margin beyond the outermost estimate, as a share of the axis
REACH = 3  # intervals that reach farther than this multiple of the estimates are cut


def chart(table: pd.DataFrame) -> Chart:
    """Draw points with intervals over the number of workers, the line of no difference, and for speed the band of 5 %.

    `table` is a part of `analysis.comparison.compared` with at least one estimate.
    """
    measure: Measure = table["measure"].iloc[0]
    shown = range_of(table)
    title = TITLES[measure].format(table["letter"].iloc[0])
    y = values_axis(title, "~g" if measure == "speed" else "+.1%", shown)
    level = 1 if measure == "speed" else 0
    same = Layer(pd.DataFrame({"y": [level], "low": [SAME.low], "high": [SAME.high]}))
    band = same.mark_rect(color=palette.NEUTRAL, opacity=0.2).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    rule = same.mark_rule(color=palette.NEUTRAL, strokeWidth=1).encode(y=alt.Y("y:Q"))
    return lines(
        split_facets(table),
        of_variants(table["variant"]),
        f"{title} against {workers_of(table['driver'])}",
        along_factor("threads", table),
        y,
        shown,
        behind=[*([band] if measure == "speed" else []), rule],
        tooltip_columns=("threads", "joint_low", "joint_high", "rounds_a", "rounds_b"),
    )


def caption(sides: Sides, part: pd.DataFrame, revision: str, label: str = "") -> Caption:
    """The caption of one part of `compared`; `label` distinguishes it from the other parts."""
    a, b = sides.names
    what = "Speed" if part["measure"].iloc[0] == "speed" else "Test accuracy"
    band = f"; grey: equivalent within {WITHIN}; {TEST_BAR}" if what == "Speed" else ""
    cut = "; bars that leave the chart end in an arrow" if range_of(part).cuts else ""
    lines = [
        workload(part.iloc[0]),
        f"A: {_side(sides.a, a)}",
        f"{sides.letter}: {_side(sides.b, b)}",
        pairing_sentence(sides),
        f"Bars: 95 % t interval of each point by itself{band}{cut}; without a bar: no interval.",
        joint_sentence(part),
        *([MEASURED_IN_FULL] if what == "Speed" and part["measures"].iloc[0] == "full" else []),
        *_gaps(part),
        dated(part["last_run_utc"], revision),
    ]
    return Caption(f"{what} of {b} against {a}" + (f" ({label})" if label else ""), lines)


def _side(runs: pd.DataFrame, name: str) -> str:
    first = runs.iloc[0]
    rounds = several(len(runs.loc[runs["status"] == "ok", [*PROCESSES]].drop_duplicates()), "round")
    return f"{name}, {first['experiment']}, {rounds}; {provenance(runs)}"


def _gaps(part: pd.DataFrame) -> list[str]:
    """A line for each reason why a point is missing."""
    gaps = part[part["reason"].notna()].groupby("reason", sort=False)["threads"]
    return [f"With {workers(*threads)}: {shorten(str(reason), REASON, placeholder=' …')}." for reason, threads in gaps]


def range_of(table: pd.DataFrame) -> Range:
    """Compute a range with every estimate and the line of no difference; very long intervals are cut."""
    log = table["measure"].iloc[0] == "speed"
    least = np.log(LEAST["speed"]) if log else LEAST["accuracy"]
    estimated = table.loc[table["estimate"].notna(), ["estimate", "low", "high"]].to_numpy(dtype=float)
    away = np.log(estimated) if log else estimated  # from the line of no difference, on the scale of the axis
    estimates, bounds = away[:, 0], away[:, 1:].ravel()
    bounds = bounds[~np.isnan(bounds)]
    inside = bounds[np.abs(bounds) <= REACH * max(least, np.abs(estimates).max())]
    values = np.concatenate([estimates, inside, [-least, least]])
    room = ROOM * np.ptp(values)
    ends = [float(np.exp(end) if log else end) for end in (values.min() - room, values.max() + room)]
    return Range(ends[0], ends[1], log, cuts=inside.size < bounds.size)
