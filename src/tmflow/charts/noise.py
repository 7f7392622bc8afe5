"""The chart of a platform's noise: the distribution of a point's time over rounds."""

from __future__ import annotations

import altair as alt
import pandas as pd

from tmflow.analysis.noise import Noise
from tmflow.base.text import several
from tmflow.charts import palette
from tmflow.charts.captions import Caption, dated
from tmflow.charts.marks import layered


def histogram(bins: pd.DataFrame) -> alt.LayerChart:
    """Draw the result of `tmflow.analysis.noise.histogram`."""
    bars = (
        alt.Chart(bins)
        .mark_rect(color=palette.BLUE, stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X(
                "low:Q",
                title="Deviation of the time from the mean of its point (%)",
                axis=alt.Axis(format="+~f", tickCount=8),
            ),
            x2="high:Q",
            y=alt.Y("share:Q", title="Share of runs", axis=alt.Axis(format="~%", tickCount=5)),
            y2=alt.datum(0),
            tooltip=[alt.Tooltip("low", format="+.2f"), alt.Tooltip("high", format="+.2f"), "runs"],
        )
    )
    zero = alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=palette.NEUTRAL).encode(x="x:Q")
    return layered("Share of runs by the deviation of their time from the mean of their point over rounds", bars, zero)


def caption(
    measured: Noise, runs: pd.DataFrame, bins: pd.DataFrame, platform: str, which: str, revision: str
) -> Caption:
    """The caption of the histogram `bins` of `runs`; `which` describes the runs."""
    return Caption(
        f"Noise between rounds on {platform}",
        [
            f"{several(measured.runs, 'run')} of {several(measured.points, 'point')} in "
            f"{several(measured.rounds, 'round')}; {which}.",
            "Measured runs with the usual measures, not oversubscribed. A point is one combination of factors under "
            "one definition and software version. Corrected for using the mean of the same rounds.",
            f"The outermost bars include all deviations beyond {bins['high'].iloc[-1]:.1f} %.",
            dated(runs["started_at_utc"], revision),
        ],
    )
