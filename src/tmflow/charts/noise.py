"""How noisy a platform is, as a chart: the distribution of a point's time over rounds."""

from __future__ import annotations

import altair as alt
import pandas as pd

from tmflow.analysis.noise import Noise
from tmflow.base.text import several
from tmflow.charts import palette
from tmflow.charts.captions import Caption, dated
from tmflow.charts.marks import layered


def histogram(bins: pd.DataFrame) -> alt.LayerChart:
    """The chart of `tmflow.analysis.noise.histogram`."""
    bars = (
        alt.Chart(bins)
        .mark_rect(color=palette.BLUE, stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("low:Q", title="Time, from the mean of its point (%)", axis=alt.Axis(format="+~f", tickCount=8)),
            x2="high:Q",
            y=alt.Y("share:Q", title="Share of runs", axis=alt.Axis(format="~%", tickCount=5)),
            y2=alt.datum(0),
            tooltip=[alt.Tooltip("low", format="+.2f"), alt.Tooltip("high", format="+.2f"), "runs"],
        )
    )
    zero = alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=palette.NEUTRAL).encode(x="x:Q")
    return layered("Share of runs by how far their time is from the mean of their point over rounds", bars, zero)


def caption(
    measured: Noise, found: pd.DataFrame, bins: pd.DataFrame, platform: str, which: str, revision: str
) -> Caption:
    """What stands above the chart of the `bins` of `found`; `which` are the runs that were read, in words."""
    return Caption(
        f"Noise between rounds on {platform}",
        [
            f"{several(measured.runs, 'run')} of {several(measured.points, 'point')} in "
            f"{several(measured.rounds, 'round')}; {which}.",
            "Measured runs with the usual measures, not oversubscribed; a point is one combination of factors, under "
            "one definition and software. Corrected for the mean being of these very rounds.",
            f"The outermost bars hold also all that is farther than {bins['high'].iloc[-1]:.1f} %.",
            dated(found["started_at_utc"], revision),
        ],
    )
