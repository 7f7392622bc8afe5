"""Captions: the title of a chart, and what the reader must know to judge its numbers."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import altair as alt
import pandas as pd

from tmflow.analysis import elements
from tmflow.analysis.rounds import AND
from tmflow.analysis.run_table import CONTEXT, POINT, VARIANT, numbered
from tmflow.analysis.stats import Interval, bounded
from tmflow.analysis.summaries import grains
from tmflow.analysis.variants import name_of, name_of_threads, unusual, values_by_name
from tmflow.analysis.versions import left_out_sentence
from tmflow.base.text import from_to, interval, listed, several
from tmflow.charts.axes import EVENTS, is_never_seen, value_range
from tmflow.charts.tooltips import words_of_divergence
from tmflow.native.registry import consistency_by_strategy
from tmflow.spec.factors import OWN_DATA, SYNTHETIC, VALUES_BEFORE
from tmflow.spec.models import MODEL_FACTORS, MODELS, OWN_MODEL
from tmflow.spec.shapes import describe_shapes
from tmflow.spec.strategies import PARAMETERS

UNSELECTED = 0.6  # opacity of a name in a legend whose series is hidden: Vega's 0.35 is hard to read
TITLE, LINE = 84, 120  # characters per line of the title and of the caption of an exported chart
REASON = 200  # characters of a reason in a caption; the table next to the chart shows a long error in full

# By the measure of a summary, or the kind of a figure.
TITLES = {
    "speedup": "Speedup over the same strategy with one worker",
    "speedup_vs_tf_lock": "Speedup over tf_lock with one worker",
    "step_time": "Time per step",
    "time_over_lock": "Time relative to a lock, by the size of a critical section",
    "accuracy": "Test accuracy",
    "commits": "Critical sections committed as a transaction",
    "failures": "Failed transactions by cause",
    "causes": "Aborts by family",
    "raw_causes": "Aborts by raw status",
    "time_to_accuracy": "Time to a test accuracy",
    "lost": "Lost updates",
    "torn": "Torn reads",
    "inconsistent": "Elements inconsistent with the optimiser's arrays",
    "lock_waited": "Time spent waiting for locks",
    "lock_held": "Time spent holding locks",
    "accuracy_curve": "Test accuracy during training",
    "curve": "Test accuracy during training",
    "staleness": "Staleness of updates",
    "mean_staleness": "Mean staleness of updates",
    "p95_staleness": "95th percentile of the staleness of updates",
    "phases": "Time of a step by phase",
    "step_transfers": "Transfers per step",
    "step_bytes": "Bytes sent per step",
    "speed_ratio": "Speed relative to a lock",
    "accuracy_difference": "Test accuracy relative to a lock",
}
TEST_BAR = "thick: the 90 % interval of the equivalence test (5 % each side), where it shows equivalence"
OF_SPEED = {"speedup", "speedup_vs_tf_lock", "step_time", "time_over_lock", "time_to_accuracy", "speed_ratio"}
NOTES = {
    "failures": (
        "Share of attempts (the rest committed), classified as in the study: on TSX, an abort counts as capacity only "
        "if no other bit is set; otherwise a conflict takes precedence."
    ),
    "causes": "Share of attempts (the rest committed), classified by the raw status.",
    "raw_causes": "Share of attempts (the rest committed), by raw status, with the meaning of its bits.",
    "time_to_accuracy": (
        "Seconds of the workers' loop without its pauses; the accuracy is interpolated linearly between two points of "
        "the curve."
    ),
    "time_over_lock": (
        "Time of each strategy over that of lock in the same round, both with critical sections of as many elements. "
        "Below 1 is faster than the lock."
    ),
    "phases": (
        "Mean of the traced steps of each worker, then of workers and rounds. Where phases overlap, the time is that "
        "of the first of: apply, compute, send, receive, queue. Traced steps take longer than others."
    ),
    "step_transfers": (
        "Tensors that tasks send each other for a step of a worker, counted in its traced steps; a control dependency "
        "counts, too."
    ),
    "step_bytes": (
        "Bytes of the tensors that tasks send each other for a step of a worker, counted in its traced steps, without "
        "what gRPC adds."
    ),
    "inconsistent": (
        "Share of the elements, sampled by one of a block, whose weight and whose optimiser arrays contain different "
        "updates at the end of the training."
    ),
    "speed_ratio": f"Shaded: within 5 % (equivalent); {TEST_BAR}.",
    "accuracy_difference": f"Shaded: within 2 percentage points (equivalent); {TEST_BAR}.",
}
UNKNOWN = "not known here"
REVISION = "database revision "
CONSISTENCY_LEVELS = ("none", "element", "block", "tensor", "step", UNKNOWN)
MEASURED_IN_FULL = (
    "Fully instrumented: counting lost updates and torn reads and timing locks takes time, so these times are not "
    "comparable with those of usual runs."
)
STACKED = {"failures", "causes", "raw_causes"}
BARS = {*STACKED, "phases"}
DOTS_AND_BARS = {*BARS, *EVENTS}  # the others are drawn as lines
WORKLOADS = 3  # the most that are described one by one
STALL = 1.5  # a round farther from the median than this factor: noise of a few per cent does not get there
STALLED = 3  # the most points with such a round whose medians a caption gives
PAIRED = {"speedup", "speedup_vs_tf_lock", "time_over_lock", "speed_ratio", "accuracy_difference"}
# Measures whose charts show a single number of threads.
AT_ONE_COUNT = {"accuracy_curve", "staleness", "time_over_lock", "speed_ratio", "accuracy_difference"}
SCALES = {
    "full": "full scale",
    "quick": "quick scale: a smoke test with few rounds and steps; not a result",
    "adhoc": "ad hoc runs, not a planned experiment",
}
EVIDENCE = {
    "measured": "measured on real hardware",
    "emulated": "emulated: real training, the hardware transactions of {machines} emulated in software",
    "simulated": "simulated in virtual time",
    "published": "published: quoted from a paper",
}


Titles = Mapping[str, str]
"""The titles of experiments by id; other experiments are called by their id."""
NO_TITLES: Final[Titles] = MappingProxyType({})
Drawn = TypeVar("Drawn", alt.LayerChart, alt.VConcatChart, alt.LayerChart | alt.ConcatChart)


class Caption(NamedTuple):
    """A title and the sentences under it."""

    title: str
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join([self.title, *self.lines])

    def at(self, revision: str) -> Caption:
        """The same caption with another database revision in its last line."""
        *lines, dates = self.lines
        return Caption(self.title, [*lines, f"{dates.rpartition(REVISION)[0]}{REVISION}{revision}."])


def figure_of_the_study(experiment: str) -> str | None:
    """The number of the study's figure that an experiment repeats, such as 4.1; None if it repeats none."""
    match = re.fullmatch(r"fig-(\d+\.\d+)", experiment)
    return match[1] if match else None


def caption(
    summary: pd.DataFrame,
    revision: str,
    label: str = "",
    experiment: str | None = None,
    also: Sequence[str] = (),
    titles: Titles = NO_TITLES,
) -> Caption:
    """Write the caption of one chart; `label` distinguishes it from the experiment's other panels.

    revision: the revision of the database. experiment: the experiment that the figure belongs to, if there is exactly
    one; it may show the runs of another experiment. also: sentences about how the chart is drawn.

    Raises ValueError for an empty summary.
    """
    if summary.empty:
        raise ValueError("an empty summary has no caption")
    first = summary.iloc[0]
    measure = first["measure"]
    threads = name_of_threads(first["driver"])
    if measure in AT_ONE_COUNT and threads not in label and summary["threads"].nunique() == 1:
        label = ", ".join(filter(None, (f"{threads} {first['threads']}", label)))
    name = experiment or first["experiment"]
    figure = figure_of_the_study(name) if experiment else None  # without one, the runs may belong to several figures
    which = f", as figure {figure} of the study" if figure else f" – {titles.get(name, name)}"
    runs_of = str(first["experiment"])
    columns = ["platform", "evidence", "platform_name", "hardware_threads", "profile", "scale"]  # few: faster to group
    lines = [
        *_workloads(summary),
        *also,
        None if name == runs_of else f"Runs of the experiment “{titles.get(runs_of, runs_of)}”.",
        NOTES.get(measure),
        _elements(summary),
        *_parameters(summary),
        _consistencies(summary) if measure in OF_SPEED else None,
        MEASURED_IN_FULL if (summary["measures"] == "full").any() else None,
        *(provenance(rows) for _, rows in summary[columns].groupby(["platform", "evidence"], sort=False)),
        *_software(summary),
        _intervals(summary),
        _stalls(summary),
        *_gaps(summary),
        dated(summary["last_run_utc"], revision),
    ]
    return Caption(f"{TITLES[measure]}{which}" + (f" ({label})" if label else ""), [line for line in lines if line])


def hidden_sentence(names: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """The series that a chart hides until the reader chooses them; nothing if it shows all."""
    if not hidden:
        return []
    return [
        f"Drawn at first: {len(names) - len(hidden)} of the {len(names)} names of the legend. On a page, a click on a "
        f"name draws or hides it. Hidden, with their numbers in the table: {listed(list(hidden))}."
    ]


def titled(chart: Drawn, caption: Caption) -> Drawn:
    """Add the caption, wrapped to the width of an export, and a style for print."""
    lines = [part for line in caption.lines for part in textwrap.wrap(line, LINE)]
    title = alt.TitleParams(
        textwrap.wrap(caption.title, TITLE),
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
        .configure_legend(labelFontSize=12, symbolSize=90, unselectedOpacity=UNSELECTED)
        .configure_view(stroke="#DDDDDD")
    )
    return styled


def _workloads(summary: pd.DataFrame) -> list[str]:
    differing = [name for name in POINT if name not in (*CONTEXT, *VARIANT, "threads")]
    distinct = summary[~pd.Series(numbered(summary, differing)).duplicated().to_numpy()]
    descriptions = list(dict.fromkeys(workload(point) for _, point in distinct.iterrows()))
    rest = len(descriptions) - WORKLOADS
    return [*descriptions[:WORKLOADS], *([f"And {several(rest, 'more workload')}."] if rest > 0 else [])]


# Factors that `workload` describes in other words, and `measures`, which captions state separately.
WORDED = ("activation", "hidden", "dropout_keep", "measures", "shapes")


def workload(point: pd.Series) -> str:
    """Describe the workload of a point: all factors except its strategy and number of workers."""
    factors = point.dropna()
    units = f"{point['activation']} units" if "activation" in factors else "units"
    training = [
        describe_shapes(factors["shapes"]) if "shapes" in factors else "",
        f"batch {point['batch']}",
        "" if point["dataset"] in (OWN_DATA, SYNTHETIC) else f"{point['matrix']} pixels",
        f"{point['hidden']} hidden {units}" if "hidden" in factors else "",
        f"{point['iterations']:,} steps in all",
        f"learning rate {point['learning_rate']:g}",
        f"dropout keep {point['dropout_keep']:g}" if "dropout_keep" in factors else "",
    ]
    others = {
        name: factors[name] for name in (*MODEL_FACTORS, *VALUES_BEFORE) if name in factors and name not in WORDED
    }
    ways = [
        f"{point['driver']} driver",
        f"{point['variables']} variables" if "variables" in factors else "",
        *_cluster(factors),
        f"{several(int(factors['steps_per_call']), 'step')} in a call" if "steps_per_call" in factors else "",
        f"{factors['step_us']:g} us of work in a step" if "step_us" in factors else "",
        *(f"{name_of(name)} {value}" for name, value in others.items() if value != VALUES_BEFORE.get(name)),
        "" if point["pinning"] == "none" else f"pinned to {point['pinning']}",
    ]
    what, how = (", ".join(filter(None, texts)) for texts in (training, ways))
    model = MODELS.get(str(point["model"]))  # None: a run of another version of tmflow
    synthetic = "synthetic examples" if model and model.by_rows else "synthetic images"
    data = {SYNTHETIC: synthetic, OWN_DATA: "a file of the user"}.get(point["dataset"], point["dataset"])
    subject = "a model of the user" if point["model"] == OWN_MODEL else f"{point['model']} on {data}"
    return f"{subject}: {what}; {how}."


def _cluster(factors: pd.Series) -> Iterator[str]:
    """The servers and the mode of a cluster, and what is unusual about it."""
    if "servers" not in factors:
        return
    yield several(int(factors["servers"]), "server")
    yield f"mode {factors['mode']}"
    if factors["backup_workers"]:
        yield several(int(factors["backup_workers"]), "backup worker")
    if factors["placement"] != "round_robin":
        yield f"variables placed by {factors['placement']}"
    if factors["slowdown"] > 1:
        yield f"last worker {factors['slowdown']:g} times slower"


def _elements(summary: pd.DataFrame) -> str | None:
    """The share of elements that hardware transactions updated, if the summary has it (`analysis.elements`)."""
    if "elements" not in summary:
        return None
    points = summary.drop_duplicates([*POINT])  # a point may have several rows: causes, steps, ranges of staleness
    return elements.sentence(points.assign(estimate=points["elements"], low=math.nan, high=math.nan))


def _consistencies(summary: pd.DataFrame) -> str | None:
    """The consistency of each variant, if the levels differ. Critical sections of some elements make it block."""
    consistencies = consistency_by_strategy()
    in_parts = grains(summary).notna()
    of_variant = summary.assign(in_parts=in_parts)[["variant", "strategy", "promise", "in_parts"]]
    who: dict[str, list[str]] = {}
    for variant, strategy, of_adaptive, parts in of_variant.drop_duplicates("variant").itertuples(index=False):
        level = consistencies.get(strategy) if pd.isna(of_adaptive) else of_adaptive
        level = "block" if parts and level == "tensor" else level
        who.setdefault(level or UNKNOWN, []).append(str(variant))
    if len(who) < 2:
        return None
    levels = "; ".join(f"{level}: {', '.join(who[level])}" for level in sorted(who, key=CONSISTENCY_LEVELS.index))
    return f"Consistency of updates (compare speeds only at equal consistency): {levels}."


def _parameters(summary: pd.DataFrame) -> Iterator[str]:
    """A line for each strategy whose variants share a parameter value other than the default.

    Parameters in which variants differ are part of their names.
    """
    distinct = values_by_name(summary[["strategy", *PARAMETERS]].drop_duplicates())
    for strategy in dict.fromkeys(row["strategy"] for row in distinct):
        rows = [row for row in distinct if row["strategy"] == strategy]
        shared = [name for name in PARAMETERS if len({row.get(name) for row in rows}) == 1]
        if settings := ", ".join(f"{name} {value}" for name, value in unusual(rows[0], shared).items()):
            yield f"{strategy}: {settings}."


def _software(summary: pd.DataFrame) -> Iterator[str]:
    """The software versions that measured the estimates, if there are several, and the runs of versions left out.

    Results may differ because of the version.
    """
    drawn = summary[summary["estimate"].notna()]
    shown = sorted({version for names in drawn["software"].unique() for version in names.split(AND)})
    left_out = left_out_sentence(summary)
    if len(shown) > 1:
        # A point may have several rows: causes, steps, accuracies, ranges of staleness.
        pooled = drawn["software"].str.contains(AND, regex=False).groupby(numbered(drawn, POINT)).any()
        rounds = f"rounds of several versions are pooled in {int(pooled.sum())} of {several(len(pooled), 'point')}"
        yield (
            f"Measured by {len(shown)} versions of the software (claims never pool versions): {'; '.join(shown)}; "
            f"{rounds if pooled.any() else 'no point pools rounds of several versions'}."
        )
    elif shown and left_out:
        yield f"Measured by {shown[0]}."
    if left_out:
        yield left_out


def provenance(summary: pd.DataFrame) -> str:
    """The machine, kind of evidence and scale of rows that share them."""
    first = summary.iloc[0]
    unknown = " (number of hardware threads unknown)" if pd.isna(first["hardware_threads"]) else ""
    evidence = EVIDENCE[first["evidence"]].format(machines=" and ".join(sorted(set(summary["profile"].dropna()))))
    return f"{first['platform_name']}{unknown}; {evidence}; {SCALES[first['scale']]}."


def dated(started_utc: pd.Series, revision: str) -> str:
    """The date of the newest run and the revision of the database."""
    newest = started_utc.dropna()
    when = f"Newest run {str(newest.max())[:10]}" if len(newest) else "Runs not dated"
    return f"{when}; {REVISION}{revision}."


def _intervals(summary: pd.DataFrame) -> str:
    rounds = set(summary.loc[summary["estimate"].notna(), "rounds"])
    if not rounds:
        return "Nothing to show."
    measure, fewest, most = summary["measure"].iloc[0], min(rounds), max(rounds)
    marks = "whiskers" if measure in STACKED else "bars"
    together = " of all causes together" if measure in STACKED else ""
    paired = ", paired within a round" if measure in PAIRED else ""
    intervals = f"{marks}: 95 % t intervals{together} over rounds{paired}"
    if measure == "phases":
        intervals = "95 % t intervals of each phase over rounds are in the table"
    parts = [from_to(fewest, most, "round"), "no interval (one round)" if most == 1 else intervals]
    if fewest == 1 < most and measure not in BARS:
        parts.append("without a bar: a single round")
    drawn = summary.loc[summary["estimate"].notna(), "results"]
    if measure not in DOTS_AND_BARS and any(words_of_divergence(results) for results in drawn):
        parts.append("hollow and not joined: some of its rounds diverged, and it is the mean of the others")
    if measure != "phases" and value_range(summary).cuts:
        parts.append(f"{marks} that leave the chart end in an arrow")
    never = summary.loc[is_never_seen(summary), "high"].max()  # where no round had any event
    if pd.notna(never):
        parts.append(f"no bar if no round had any: with 95 % confidence at most {100 * never:.0f} % of rounds have any")
    if disturbed := int(summary["disturbed_rounds"].max()):
        parts.append(f"up to {several(disturbed, 'disturbed round')} in a point")
    return f"{'; '.join(parts)}."


def _stalls(summary: pd.DataFrame) -> str | None:
    """The medians of points with a round far from the others; None if there is no such point.

    Every point has its median in the table. The rule is fixed, and the chart shows the same estimate with and without
    this sentence.
    """
    if "farthest" not in summary or (far := summary[summary["farthest"] > STALL]).empty:
        return None
    points = far.sort_values("farthest", ascending=False, kind="stable").head(STALLED)
    rows = points[["variant", "threads", "median", "median_low", "median_high", "rounds"]].to_dict("records")
    medians = [
        f"{row['variant']} x{row['threads']} "
        f"{interval(*bounded(Interval(row['median'], row['median_low'], row['median_high'], row['rounds'])))}"
        for row in rows
    ]
    rest = len(far) - len(points)
    return (
        f"A round differs from the median of its point by more than a factor of {STALL:g} in "
        f"{several(len(far), 'point')}, as after a stall, so the bar there may be wrong. Medians with 95 % intervals "
        f"by rank: {'; '.join(medians)}{f'; and {rest} more in the table' if rest else ''}."
    )


def _gaps(summary: pd.DataFrame) -> Iterator[str]:
    """One line for each reason why points are missing or have fewer rounds."""
    missing = summary.loc[summary["reason"].notna(), ["reason", "variant", "threads", "estimate"]]
    for reason, points in missing.groupby("reason", sort=False):
        named = ", ".join(dict.fromkeys(f"{s} x{t}" for s, t in points[["variant", "threads"]].itertuples(index=False)))
        what = "Not shown" if points["estimate"].isna().all() else "Incomplete"
        yield f"{what}: {named}: {textwrap.shorten(str(reason), REASON, placeholder=' …').rstrip('.')}."
