"""What stands above a chart: a title, and what the reader must know to believe the numbers."""

from __future__ import annotations

import textwrap
from typing import NamedTuple, TypeVar

import altair as alt
import pandas as pd

from tmflow.axes import value_range
from tmflow.strategy_parameters import PARAMETERS
from tmflow.summaries import unusual

LINE = 120  # characters of a caption line at the width of an exported chart
REASON = 200  # characters of a reason in a caption; an error may be long, and the table beside the chart has it in full

TITLES = {
    "speedup": "Speedup over itself with one worker",
    "speedup_vs_tf_lock": "Speedup over tf_lock with one worker",
    "step_time": "Time per step",
    "accuracy": "Test accuracy",
    "commits": "Critical sections that committed as a transaction",
    "accuracy_curve": "Test accuracy on the way",
    "staleness": "Staleness of updates",
}
AT_ONE_COUNT = {"accuracy_curve", "staleness"}  # measures whose charts show a single number of threads
SCALES = {
    "full": "full scale",
    "quick": "quick scale: few rounds and steps, to see that everything works; not a result",
    "adhoc": "ad hoc runs, not a planned experiment",
}
EVIDENCE = {
    "measured": "measured on real hardware",
    "emulated": "emulated: real training, the hardware transactions of {machines} emulated in software",
    "simulated": "simulated in virtual time",
    "published": "published: quoted from a paper",
}


Drawn = TypeVar("Drawn", alt.LayerChart, alt.VConcatChart)


class Caption(NamedTuple):
    """A title and the sentences under it."""

    title: str
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join([self.title, *self.lines])


def caption(summary: pd.DataFrame, revision: str, label: str = "") -> Caption:
    """The caption of one panel; `label` is what tells it from the experiment's other panels, `revision` the database's.

    Raises ValueError for an empty summary: nothing was measured, so there is nothing to caption.
    """
    if summary.empty:
        raise ValueError("an empty summary has no caption")
    first = summary.iloc[0]
    if first["measure"] in AT_ONE_COUNT and "threads" not in label:
        label = ", ".join(part for part in (f"threads {first['threads']}", label) if part)
    title = f"{TITLES[first['measure']]}, {first['experiment']}" + (f" ({label})" if label else "")
    lines = [
        _workload(first),
        *_parameters(summary),
        _provenance(summary),
        _intervals(summary),
        *_gaps(summary),
        _dates(summary, revision),
    ]
    return Caption(title, lines)


def titled(chart: Drawn, caption: Caption) -> Drawn:
    """The chart with its caption, lines wrapped to the width of an export, and a look fit for print."""
    lines = [part for line in caption.lines for part in textwrap.wrap(line, LINE)]
    title = alt.TitleParams(
        caption.title,
        subtitle=lines,
        anchor="start",
        frame="group",
        fontSize=15,
        subtitleFontSize=11,
        subtitleColor="#555555",
        subtitleLineHeight=14,
        subtitlePadding=6,
        offset=12,
    )
    font = "Liberation Sans, Arial, Helvetica, sans-serif"
    styled: Drawn = (
        chart.properties(title=title, background="white", padding=12)
        .configure(font=font)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", titlePadding=8)
        .configure_legend(labelFontSize=12, symbolSize=90)
        .configure_view(stroke="#DDDDDD")
    )
    return styled


def _workload(point: pd.Series) -> str:
    dropout = "" if pd.isna(point["dropout_keep"]) else f", dropout keep {point['dropout_keep']:g}"
    return (
        f"{point['model']} on {point['dataset']}: batch {point['batch']}, {point['matrix']} pixels, "
        f"{point['iterations']:,} steps in all, learning rate {point['learning_rate']:g}{dropout}; "
        f"{point['driver']} driver, {point['variables']} variables."
    )


def _parameters(summary: pd.DataFrame) -> list[str]:
    """A line for each strategy whose variants share a parameter that is not what it would be if not given.

    Those in which they differ are in their names.
    """
    lines = []
    for strategy, rows in summary.groupby("strategy", sort=False):
        shared = [name for name in PARAMETERS if rows[name].nunique(dropna=False) == 1]
        told = ", ".join(f"{name} {value}" for name, value in unusual(rows.iloc[0], shared).items())
        if told:
            lines.append(f"{strategy}: {told}.")
    return lines


def _provenance(summary: pd.DataFrame) -> str:
    first = summary.iloc[0]
    unknown = " (number of hardware threads unknown)" if pd.isna(first["hardware_threads"]) else ""
    evidence = EVIDENCE[first["evidence"]].format(machines=" and ".join(sorted(set(summary["profile"].dropna()))))
    return f"{first['platform_name']}{unknown}; {evidence}; {SCALES[first['scale']]}."


def _dates(summary: pd.DataFrame, revision: str) -> str:
    newest = summary["last_run_utc"].dropna()
    when = f"Newest run {str(newest.max())[:10]}" if len(newest) else "Runs not dated"
    return f"{when}; database revision {revision}."


def _intervals(summary: pd.DataFrame) -> str:
    rounds = sorted(set(summary.loc[summary["estimate"].notna(), "rounds"]))
    if not rounds:
        return "Nothing to show."
    count = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    paired = ", paired within a round" if summary["measure"].iloc[0].startswith("speedup") else ""
    bars = "no interval (one round)" if rounds == [1] else f"bars: 95 % t intervals over rounds{paired}"
    single = "; hollow: a single round" if rounds[0] == 1 < rounds[-1] else ""
    cut = "; bars that leave the chart are cut" if value_range(summary).cuts else ""
    disturbed = int(summary["disturbed_rounds"].max())
    noise = f"; of a point's rounds up to {disturbed} on a disturbed machine" if disturbed else ""
    return f"{count} round{'s' if rounds != [1] else ''}; {bars}{single}{cut}{noise}."


def _gaps(summary: pd.DataFrame) -> list[str]:
    """One line for each reason for which points are missing or rest on fewer rounds."""
    lines = []
    for reason, points in summary[summary["reason"].notna()].groupby("reason", sort=False):
        named = ", ".join(dict.fromkeys(f"{s} x{t}" for s, t in points[["variant", "threads"]].itertuples(index=False)))
        what = "Not shown" if points["estimate"].isna().all() else "Incomplete"
        why = textwrap.shorten(str(reason), REASON, placeholder=" …").rstrip(".")
        lines.append(f"{what}: {named}: {why}.")
    return lines
