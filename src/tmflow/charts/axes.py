"""Axes of a chart: value ranges, the scale of threads, wrapped labels, and dodging of coinciding points."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pandas as pd

LINE = 14  # px: height of a line of a row's name
STEP = 0.08  # distance of two strategies at the same x, as a share of the gap between neighbours on the axis
SPREAD = 0.5  # the share of that gap that all strategies together may take
LOG_FROM = 20  # times and counts that span more than this, largest to smallest, get a log axis
FAILURES = {"failures", "causes", "raw_causes"}
COMPARED = {"speed_ratio", "accuracy_difference"}  # with a baseline
SMALL = 0.25  # failures whose highest share is below this get an axis of their own range instead of 0 to 1

# Ticks of a log axis in each decade, the coarsest first; the first set with `FEW` ticks in the range is used.
STEPS = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0),
)
FEW = 4


class Range(NamedTuple):
    """The range of a value axis; `cuts` is true if an interval leaves it."""

    low: float
    high: float
    log: bool
    cuts: bool


def log_ticks(low: float, high: float) -> list[float]:
    """The ticks of the coarsest set in `STEPS` that has at least `FEW` in the range of a log axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for steps in STEPS:
        ticks = [tick for decade in decades for step in steps if low <= (tick := step * 10.0**decade) <= high]
        if len(ticks) >= FEW:
            break
    return ticks


# Measures of events: lost updates, torn reads, elements whose weight and slots contain different updates.
# If no round has any, the interval bounds the share of rounds that do (`stats.share_interval`).
EVENTS = frozenset({"lost", "torn", "inconsistent"})


def is_never_seen(rows: pd.DataFrame) -> pd.Series:
    """Find rows without any event: their interval reflects the number of rounds, not a loss."""
    return rows["measure"].isin(EVENTS) & (rows["estimate"] == 0)


def value_range(summary: pd.DataFrame, log: bool | None = None) -> Range:
    """Compute a range with every estimate in it; very long intervals are cut, so that the estimates stay legible.

    Accuracy zooms in on its values, within [0, 1]. Commits, and failures unless they are few, show [0, 1]. Other
    measures start at 0, or use a log scale where they span a wide range. log: force a log or a linear scale; the scale
    stays linear if an estimate is 0.
    """
    drawn = summary[summary["estimate"].notna()]
    if drawn.empty:
        return Range(0, 1, log=False, cuts=False)
    measure, fraction = drawn["measure"].iloc[0], drawn["unit"].iloc[0] == "fraction"
    if measure in COMPARED:
        return _compared(drawn, measure == "speed_ratio")
    low, high = float(drawn["estimate"].min()), float(drawn["estimate"].max())
    lows, highs = (drawn.loc[~is_never_seen(drawn), name].dropna() for name in ("low", "high"))
    lows, highs = lows.clip(lower=0), highs.clip(upper=1) if fraction else highs
    if log is None:  # staleness is a distribution with a long tail
        spans = measure == "staleness" or not (fraction or measure.startswith("speedup"))
        log = spans and low > 0 and high / low > LOG_FROM
    log = log and low > 0
    bottom, top = 0.0, 1.16 * max([high, *highs.clip(upper=2 * high)])
    if log:
        bottom, top = low / 2, 2 * high
    elif measure == "staleness":
        top = 1.16 * high
    elif measure == "commits" or (measure in FAILURES and high > SMALL):
        top = 1.0
    elif measure in {*EVENTS, "lock_waited", "lock_held", *FAILURES}:
        top = max(0.01, top)
    elif fraction:
        margin, reach = max(0.1 * (high - low), 0.004), max(2 * (high - low), 0.05)
        bottom = max(0.0, min([low, *lows.clip(lower=low - reach)]) - margin)
        top = max([high, *highs.clip(upper=high + reach)]) + margin
    elif measure.startswith("speedup"):
        top = max(top, 2.0)  # room for part of the ideal line
    top = min(1.0, top) if fraction else top
    return Range(bottom, top, log, cuts=bool((lows < bottom).any() or (highs > top).any()))


def _compared(drawn: pd.DataFrame, log: bool) -> Range:
    """A range of all estimates, the line of no difference and its band; very long intervals are cut."""
    values, lows, highs = (np.log(drawn[name]) if log else drawn[name] for name in ("estimate", "low", "high"))
    room = 0.1 if log else 0.03
    low, high = min(0.0, values.min()), max(0.0, values.max())
    reach = max(high - low, 5 * room)
    bottom = min([-room, low, *lows.dropna().clip(lower=low - reach)]) - room / 2
    top = max([room, high, *highs.dropna().clip(upper=high + reach)]) + room / 2
    cuts = bool((lows < bottom).any() or (highs > top).any())
    return Range(float(np.exp(bottom)), float(np.exp(top)), log, cuts) if log else Range(bottom, top, log, cuts)


class Ticks:
    """The distinct numbers on an x axis: linear or log, whichever separates the closest neighbours better.

    log: force a log or a linear scale; the scale stays linear if a number is 0.
    """

    def __init__(self, values: Iterable[float], log: bool | None = None) -> None:
        self.values = sorted({int(value) if value == int(value) else float(value) for value in values}) or [1]
        self.first, self.last = self.values[0], self.values[-1]
        self.log = False
        self.gap = 1.0  # to the closest neighbour: a difference, or a difference of logs
        if len(self.values) > 1:
            plain, logs = np.array(self.values, dtype=float), np.log(np.maximum(self.values, 1e-9))
            shares = [float(np.diff(axis).min() / np.ptp(axis)) for axis in (plain, logs)]
            self.log = self.first > 0 and (shares[1] > shares[0] if log is None else log)
            self.gap = float(np.diff(logs if self.log else plain).min())

    def shift(self, value: float, share: float) -> float:
        """Shift `value` by a share of the gap between the closest neighbours."""
        return float(value * np.exp(share * self.gap)) if self.log else float(value + share * self.gap)

    def scale(self) -> alt.Scale:
        """A scale with room for the outermost points after dodging."""
        domain = [self.shift(self.first, -0.4), self.shift(self.last, 0.4)]
        return alt.Scale(domain=domain, nice=False, type="log" if self.log else "linear")

    def between(self, left: float, right: float) -> float:
        """The midpoint of two values on this scale."""
        return float((left * right) ** 0.5 if self.log else (left + right) / 2)

    def dodge(self, values: pd.Series, places: pd.Series, n_places: int) -> list[float]:
        """Dodge coinciding points: shift each value by its place among `n_places`, which are centred on the value."""
        step = min(STEP, SPREAD / max(n_places - 1, 1))
        shares = (places - (n_places - 1) / 2) * step
        return [self.shift(value, share) for value, share in zip(values, shares, strict=True)]


LETTER = 6  # approximate px of a letter of a name
NARROW, PHONE = 480, 230  # px: the widest chart on a phone, and a line of its legend there


def wrap_name(name: str, room: int) -> list[str]:
    """Wrap a name into lines of at most `room` px."""
    return textwrap.wrap(name, room // LETTER, break_on_hyphens=False) or [name]


def max_lines(names: Iterable[str], room: int) -> int:
    """Count the lines of the name that needs the most."""
    return max((len(wrap_name(name, room)) for name in names), default=1)


def max_line_length(names: Iterable[str], room: int) -> int:
    """Count the letters of the longest line of all wrapped names."""
    return max((len(line) for name in names for line in wrap_name(name, room)), default=0)


def wrapped_label_expr(
    names: Collection[str], room: int, on_phone: int | None = None, words: str = "datum.label"
) -> Any:
    """Build a `labelExpr` for a legend or an axis that wraps names too long for `room` px; undefined if all fit.

    words: the Vega expression of a label. on_phone: the room in a narrow chart of a single panel (several panels share
    no width). The expression contains no name, because names may come from an untrusted source.
    """
    wide, narrow = (_wrap_expr(words, at) if max_lines(names, at) > 1 else words for at in (room, on_phone or room))
    if wide == narrow:
        return alt.Undefined if wide == "datum.label" else wide
    return f"width > {NARROW} ? {wide} : {narrow}"


def _wrap_expr(words: str, room: int) -> str:
    """The Vega expression that wraps like `wrap_name`: at blanks, and inside a word that is longer than a line."""
    most = room // LETTER
    line = f"(?=.{{{most + 1}}})(?:(.{{1,{most}}}) +|(.{{{most}}}))"
    return f"split(replace({words}, regexp('{line}', 'g'), '$1$2\\n'), '\\n')"


def rows_axis(column: str, rows: Sequence[str], room: int, padding: int) -> alt.Y:
    """The y axis of a chart with a named row for each value; `room` is the largest width of the names in px."""
    names = wrapped_label_expr(rows, room)
    axis = alt.Axis(labelLimit=room, labelPadding=padding, labelFlush=False, ticks=False, grid=False, labelExpr=names)
    return alt.Y(f"{column}:N", title=None, sort=list(rows), axis=axis)


def rows_height(names: Collection[str], row: int, room: int) -> int:
    """The height of all rows in pixels; the name with the most lines determines that of each row."""
    return max(row, LINE * max_lines(names, room) + 4) * max(len(names), 2)
