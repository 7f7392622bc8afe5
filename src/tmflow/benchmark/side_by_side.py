"""Strategies side by side: the same training under each, in interleaved rounds, and a sentence for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, get_args

from tmflow.analysis import stats
from tmflow.base.errors import BadInput, unknown
from tmflow.base.text import interval
from tmflow.benchmark.steps import StepSubject, make_subject
from tmflow.benchmark.storage import SavedSteps, Step
from tmflow.native.registry import assignments
from tmflow.spec.trial import TrialSpec

# The factors that are whole numbers.
NUMBERS = [
    name for name, field in TrialSpec.model_fields.items() if int in (field.annotation, *get_args(field.annotation))
]


class Scan(NamedTuple):
    """A factor that takes several values; within each the strategies are compared."""

    factor: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Compared:
    """A strategy beside the first one: its speed over the speed of the first, paired by round, with 95 % interval.

    value: that of the scanned factor. ratio: None for the first, and without a round in which both were measured.
    """

    strategy: str
    value: int | None
    us_per_step: float
    rounds: int
    consistency: str
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


def parse_scan(given: Sequence[object] | None) -> Scan | None:
    """Parse a factor, its lowest and its highest value: the lowest is doubled up to the highest, which comes last.

    Raises BadInput for a factor that is no whole number, and for values that are no range.
    """
    if not given:
        return None
    factor, low, high = given
    if factor not in NUMBERS:
        raise unknown("factor in --scan, which needs a whole number:", factor, NUMBERS)
    if not isinstance(low, int) or not isinstance(high, int) or not 1 <= low < high:
        raise BadInput(f"--scan {factor} goes from {low} to {high}, but should go from 1 or more to a larger number.")
    values = [low]
    while values[-1] * 2 < high:
        values.append(values[-1] * 2)
    return Scan(str(factor), (*values, high))


def make_subjects(
    strategies: Sequence[str], factors: Mapping[str, Any], scan: Scan | None, dataset: str
) -> list[StepSubject]:
    """The trainings, one for each strategy and value of the scan. Raises BadInput if they cannot be compared."""
    if len(strategies) < 2:
        raise BadInput("compare needs two strategies or more, such as: tmflow compare lock striped nolock.")
    if twice := [name for name in strategies if strategies.count(name) > 1]:
        raise BadInput(f"'{twice[0]}' is named twice: once is enough.")
    subjects = []
    for value in scan.values if scan else (None,):
        for variant in strategies:
            name, *given = variant.split(":")
            scanned = {} if scan is None else {scan.factor: value}
            parameters = assignments(variant, given)
            if both := scanned.keys() & (factors.keys() | parameters.keys()):
                raise BadInput(f"--scan sets {both.pop()}, and so does another option or '{variant}'.")
            all_factors = {**factors, **scanned, "strategy": name, **parameters}
            subjects.append(make_subject(_label(variant, scan, value), all_factors, dataset, f"'{variant}'"))
    return subjects


def compare(measured: SavedSteps, strategies: Sequence[str], scan: Scan | None) -> list[Compared]:
    """Each measured strategy beside the first one, in the order of the values and of the strategies."""
    steps = {row.name: row for row in measured.rows}
    compared = []
    for value in scan.values if scan else (None,):
        first = steps.get(_label(strategies[0], scan, value))
        for variant in strategies:
            if (row := steps.get(_label(variant, scan, value))) is None:
                continue
            facts = (variant, value, row.us_per_step, row.rounds, row.consistency)
            ratio = None if row is first or first is None else _speed(row, first)
            compared.append(Compared(*facts) if ratio is None else Compared(*facts, *ratio[:3]))
    return compared


def _speed(row: Step, first: Step) -> stats.Interval | None:
    return stats.paired_ratio(first.us_by_round, row.us_by_round)


def _label(variant: str, scan: Scan | None, value: int | None) -> str:
    return variant if scan is None else f"{variant} {scan.factor}={value}"


def sentences(compared: Sequence[Compared], first: str, scan: Scan | None) -> Iterator[str]:
    """What the rounds show: a line for each strategy; `first`: that to which the others are compared."""
    for row in compared:
        where = "" if scan is None else f"{scan.factor} {row.value}: "
        loses = ", and may lose updates" if row.consistency == "none" else ""
        time = f"{row.us_per_step:.4g} us per step"
        speed = "" if row.strategy == first else f"{_format_speed(row, first)}; "
        yield f"{where}{row.strategy}: {speed}{time}{loses}"


def _format_speed(row: Compared, first: str) -> str:
    if row.ratio is None:
        return f"measured in no round with {first}"
    ratio = interval(row.ratio, row.ratio_low, row.ratio_high)
    if row.ratio_low is None or row.ratio_high is None:
        return f"{ratio} times as fast as {first}, in one round"
    if row.ratio_low <= 1 <= row.ratio_high:
        return f"no difference to {first} found ({ratio} times as fast)"
    return f"{ratio} times as fast as {first}"


def markdown(compared: Sequence[Compared], first: str, scan: Scan | None) -> str:
    """The comparison as a table; `first` as for `sentences`."""
    columns = [*([scan.factor] if scan else []), "strategy", "us per step", "times as fast", "consistency", "rounds"]
    lines = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    for row in compared:
        ratio = "" if row.ratio is None else interval(row.ratio, row.ratio_low, row.ratio_high)
        ratio = "1" if row.strategy == first else ratio
        cells = [row.strategy, f"{row.us_per_step:.4g}", ratio, row.consistency, str(row.rounds)]
        lines.append(f"| {' | '.join([*([str(row.value)] if scan else []), *cells])} |")
    return "\n".join(lines) + "\n"


def json_rows(compared: Sequence[Compared]) -> list[dict[str, Any]]:
    """The comparison as JSON types."""
    return [asdict(row) for row in compared]
