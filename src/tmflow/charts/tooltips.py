"""Tooltips of points: their words, the wide area around a point that shows them, and no tooltip on other marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import altair as alt
import pandas as pd

COLUMNS = (
    *("variant", "strategy", "threads", "estimate", "low", "high", "rounds", "results", "disturbed_rounds", "evidence"),
)
HEADINGS = {
    "variant": "strategy", "low": "95 % interval from", "high": "95 % interval to",
    "rounds": "rounds in the estimate", "results": "rounds with a result", "disturbed_rounds": "disturbed rounds",
    "joint_low": "simultaneous interval from", "joint_high": "simultaneous interval to", "staleness": "staleness from",
    "up_to": "staleness to", "platform_name": "platform", "rounds_a": "rounds of A", "rounds_b": "rounds of B",
}  # fmt: skip
"""The words of columns in a tooltip; other columns are called by their name without underscores."""
NUMBERS = ("estimate", "low", "high", "joint_low", "joint_high")
HIT = 400  # px² of the invisible circle around a point that shows its tooltip


def columns_of(rows: pd.DataFrame) -> list[str]:
    """The `COLUMNS` that say something about the points of a chart.

    Left out are disturbed rounds if there are none, how rounds ended if all have a result, and the kind of evidence if
    all is measured.
    """
    drawn = rows[rows["estimate"].notna()]
    redundant = {
        "disturbed_rounds": not drawn["disturbed_rounds"].fillna(0).any(),
        "results": drawn["reason"].isna().all(),
        "evidence": set(drawn["evidence"]) == {"measured"},
    }
    return [name for name in COLUMNS if not redundant.get(name, False)]


def words_of_divergence(results: str) -> str | None:
    """How many rounds diverged, from words such as "1 of 6 (5 diverged)"; None if none did."""
    counts = re.findall(r"of (\d+) \([^)]*?(\d+) diverged", results)
    return "; ".join(f"{diverged} of {rounds} diverged" for rounds, diverged in counts) or None


def workers_of(drivers: Iterable[str]) -> str:
    """What the workers of runs of these drivers are: threads, processes (driver cluster), or both."""
    of_cluster = {driver == "cluster" for driver in drivers}
    return "workers" if len(of_cluster) > 1 else "worker processes" if True in of_cluster else "worker threads"


def tooltip(
    columns: Sequence[str], measure: str = "estimate", *, shares: bool = False, workers: str = "workers"
) -> list[alt.Tooltip]:
    """A tooltip of these columns, in words.

    measure: the title of the estimate, with its unit; shares: the numbers are fractions, shown as percentages; workers:
    what the workers are (`workers_of`).
    """
    form = ".4~p" if shares else ".4~g"
    titles = {name: HEADINGS.get(name, name.replace("_", " ")) for name in columns}
    titles |= {"estimate": measure, "threads": workers}
    shown = [name for name in columns if name != "strategy" or "variant" not in columns]  # a variant names its strategy
    return [alt.Tooltip(name, title=titles[name], format=form if name in NUMBERS else alt.Undefined) for name in shown]


def hit_areas(points: alt.Chart) -> alt.Chart:
    """Invisible circles around points, which show their tooltips; `points` has the positions and the tooltip."""
    encoding = points.encoding
    circles: alt.Chart = points.mark_circle(size=HIT, opacity=0, aria=False)
    circles.encoding = type(encoding)(x=encoding.x, y=encoding.y, tooltip=encoding.tooltip)
    return circles


def without_default_tooltip(layer: alt.Chart) -> alt.Chart:
    """The layer, without the tooltip that a page gives to marks that have none: the raw values of the mark's data."""
    if layer.encoding is not alt.Undefined and layer.encoding.tooltip is not alt.Undefined:
        return layer
    silent: alt.Chart = layer.copy(deep=False)
    mark = {"type": layer.mark} if isinstance(layer.mark, str) else layer.mark.to_dict()
    silent.mark = alt.MarkDef(**{**mark, "tooltip": None})
    return silent
