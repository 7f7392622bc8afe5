"""Formats a benchmark of steps for the terminal and as Markdown, deterministically."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tmflow.analysis import stats
from tmflow.benchmark import text
from tmflow.benchmark.comparison import verdict
from tmflow.benchmark.markdown import table as markdown_table
from tmflow.benchmark.markdown import with_bounds
from tmflow.benchmark.storage import SavedSteps, Step
from tmflow.benchmark.text import align

HEADS = ["configuration", "us per step", "ratio", "accuracy", "promise"]
HEADS_OF_TARGETS = ["what", "over", "at most", "found", "verdict"]
TARGETS = "Met or missed only if the whole 95 % interval lies on one side of the limit."
MLP_US = 150.0


class Checked(NamedTuple):
    """A checked target and the measured result."""

    what: str
    of: str
    limit: str
    result: str
    verdict: str


def table(steps: SavedSteps) -> str:
    """Format a table with a line per configuration, in the requested order."""
    rows = [_texts(row, steps.rounds) for row in steps.rows]
    lines = [text.machine(steps), _protocol(steps), "", *align([HEADS, *rows])]
    lines += _targets_as_lines(steps)
    return "\n".join([*lines, *(["", *text.left_out(steps)] if steps.left_out else [])])


def markdown(steps: SavedSteps) -> str:
    lines = ["# What a training step costs", "", f"{text.machine(steps)}.", "", f"{_protocol(steps)}."]
    if checked := list(targets(steps)):
        lines += ["", "### Targets", "", TARGETS, "", *markdown_table(HEADS_OF_TARGETS, [list(one) for one in checked])]
    rows = [_texts(row, steps.rounds) for row in steps.rows]
    lines += ["", "### Configurations", "", *markdown_table(HEADS, rows), ""]
    lines += [f"- {row.name}: {_factors(row)}" for row in steps.rows]
    return "\n".join([*lines, *text.not_measured(steps)])


def targets(steps: SavedSteps) -> Iterator[Checked]:
    """Check the targets whose configurations were all measured (see `steps.OF_THE_TARGETS`)."""
    rows = {row.name: row for row in steps.rows}
    stock = rows.get("deep, stock")
    yield from _over(rows.get("softmax, native"), rows.get("softmax, session"), 1 / 20)
    yield from _fast_enough(rows.get("MLP, native"))
    yield from _over(_fastest(steps, "deep, fused"), stock, 1 / 2)
    yield from _over(_fastest(steps, "deep, striped", "deep, lock"), stock, 1 / 1.3)


def _fastest(steps: SavedSteps, *names: str) -> Step | None:
    matching = [row for row in steps.rows if row.name.startswith(names)]
    return min(matching, key=lambda row: row.us_per_step, default=None)


def _over(row: Step | None, base: Step | None, limit: float) -> Iterator[Checked]:
    if row is None or base is None or (ratio := stats.paired_ratio(row.us_by_round, base.us_by_round)) is None:
        return
    yield Checked(row.name, base.name, f"{limit:.3g}", with_bounds(ratio, "{:.3f}"), verdict(ratio, limit))


def _fast_enough(row: Step | None) -> Iterator[Checked]:
    if row is None:
        return
    done = [us for us in row.us_by_round if us is not None]
    interval = stats.ratio_interval(done, [1.0] * len(done))
    yield Checked(row.name, "", f"{MLP_US:g} us", f"{with_bounds(interval, '{:.1f}')} us", verdict(interval, MLP_US))


def _targets_as_lines(steps: SavedSteps) -> list[str]:
    checked = [list(one) for one in targets(steps)]
    return ["", *align([HEADS_OF_TARGETS, *checked])] if checked else []


def _texts(row: Step, rounds: int) -> list[str]:
    fewer = f" ({row.rounds} of {rounds} rounds)" if row.rounds < rounds else ""
    return [
        row.name,
        text.with_interval(row.us_per_step, row.us_low, row.us_high) + fewer,
        "" if row.ratio is None else text.with_interval(row.ratio, row.ratio_low, row.ratio_high, "{:.3f}"),
        f"{row.accuracy:.4f}",
        row.promise,
    ]


def _factors(row: Step) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(row.factors.items()) if value is not None)


def _protocol(steps: SavedSteps) -> str:
    ratio_to = steps.rows[0].ratio_to if steps.rows else "nothing"
    disturbed = max((row.disturbed_rounds for row in steps.rows), default=0)
    state = f"up to {disturbed} rounds of a configuration on a disturbed machine" if disturbed else "no disturbed round"
    return (
        f"{text.rounds(steps.rounds)}, a fresh process each, all configurations once in shuffled order; "
        f"[95 % interval]; ratio to {ratio_to}; {steps.dataset}; {steps.measured_at_utc}; {state}"
    )
