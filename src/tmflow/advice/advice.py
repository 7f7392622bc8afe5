"""Advice: which way to synchronise is the fastest for a model, and what the others cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tmflow.advice import measurement, text
from tmflow.advice.candidates import NO_LOCK, Way, check_consistency, other_workers, strategies_for
from tmflow.advice.measurement import Counted, Measured, Subject
from tmflow.analysis import stats
from tmflow.base.errors import BadInput
from tmflow.native import automatic
from tmflow.platform.facts import display_name, platform_facts

if TYPE_CHECKING:
    from tmflow.advice.rehearsal import Rehearsal

ROUNDS_SHARE = 0.7  # of the time; the rest is for the counts and the accuracy
EQUAL_SHARE = 0.08  # of the time: one training of those whose accuracy is compared
Tell = Callable[[str], Any]


@dataclass(frozen=True)
class Ranked:
    """A way of training: microseconds per step, and its time over that of the fastest candidate, paired by round.

    us: the median of the rounds. ratio: with its 95 % interval, None for the fastest itself. candidate: False for those
    that are shown for comparison.
    """

    way: Way
    us: stats.Interval
    ratio: stats.Interval | None
    candidate: bool


@dataclass(frozen=True)
class Accuracy:
    """What a way has reached after one training of so many seconds, from the values of the beginning."""

    way: Way
    seconds: float
    reached: dict[str, float]


@dataclass(frozen=True)
class Advice:
    """What was measured; `str(advice)` says it in one screen.

    ranking: the candidates, the fastest first, and then the ways for comparison. counts: of the fastest candidate and
    of no lock, or the reason why they cannot be counted. lines: what to change. left_out: ways that were not measured,
    with the reason.
    """

    subject: str
    machine: str
    workers: int
    consistency: str
    rounds: int
    disturbed: bool | None
    ranking: list[Ranked]
    counts: dict[str, Counted | str]
    accuracy: list[Accuracy]
    lines: list[str]
    left_out: dict[str, str]

    @property
    def best(self) -> Ranked:
        """The fastest candidate."""
        return self.ranking[0]

    @property
    def equals(self) -> list[Ranked]:
        """The other candidates that may be as fast: the interval of the ratio to the fastest contains 1."""
        return [row for row in self.ranking[1:] if row.candidate and row.ratio is not None and row.ratio.low <= 1]

    def __str__(self) -> str:
        return "\n".join(text.lines(self))

    def as_json(self) -> dict[str, Any]:
        """The advice as JSON types; `steps_per_call` is of TensorFlow."""
        counts = {
            name: {"why": counted} if isinstance(counted, str) else counted._asdict()
            for name, counted in self.counts.items()
        }
        return asdict(self) | {"ranking": [_json_row(row) for row in self.ranking], "counts": counts}


def advise(
    model: Any,
    dataset: Any,
    workers: int = 2,
    *,
    consistency: str = automatic.DEFAULT,
    validation: Any = None,
    seconds: float = 60,
    tell: Tell = lambda _: None,
) -> Advice:
    """Train a compiled Keras model under each strategy that guarantees a consistency, and rank them by time per step.

    dataset: a finite `tf.data.Dataset` of batches. consistency: what concurrent updates of a variable must guarantee,
    "element", "block" or "tensor". validation: a dataset, or (x, y), to compare the accuracy after equal time. seconds:
    about how long it may take, 10 to 3,600. tell: is told what happens.

    All ways are measured in each of several rounds, in shuffled order, and compared within the rounds. Afterwards the
    model and its optimizer are as they were. Raises BadInput for a model that cannot be trained so (`Workers.fit`).
    """
    from tmflow.advice.rehearsal import Rehearsal

    guaranteed = _check(workers, consistency, seconds)
    rehearsal = Rehearsal(model, dataset, consistency=guaranteed)
    try:
        return measured_advice(rehearsal, workers, guaranteed, seconds, validation=validation, tell=tell)
    finally:
        rehearsal.close()


def advise_for_sizes(
    variables: str,
    step_us: float,
    workers: int = 2,
    *,
    consistency: str = automatic.DEFAULT,
    seconds: float = 60,
    tell: Tell = lambda _: None,
) -> Advice:
    """Rank the strategies for variables of given shapes, such as "3136x1024,1024", without a model.

    step_us: how long a worker computes between two updates. For the rest see `advise`.
    """
    from tmflow.advice.sized_variables import SizedVariables, parse_shapes

    guaranteed = _check(workers, consistency, seconds)
    subject = SizedVariables(parse_shapes(variables), step_us, consistency=guaranteed)
    return measured_advice(subject, workers, guaranteed, seconds, tell=tell)


def measured_advice(
    subject: Subject,
    workers: int,
    consistency: automatic.Consistency,
    seconds: float,
    *,
    validation: Any = None,
    tell: Tell,
) -> Advice:
    """Measure the candidates and what is shown for comparison, count, and compare the accuracy if there is a way to."""
    tell("timing one step")
    per_call = measurement.steps_of_call(subject)
    processors = len(os.sched_getaffinity(0))
    candidates = [Way(name, workers, per_call) for name in strategies_for(consistency, subject.optimiser)]
    others = [Way(automatic.AUTO, n, per_call) for n in other_workers(workers, processors)]
    own = [Way(None, per_call=n) for n in sorted({1, per_call})] if subject.has_own else []
    no_lock = Way(NO_LOCK, workers, per_call)
    ways = [*candidates[:2], *own, no_lock, *others, *candidates[2:]]  # the last ones wait if time is short
    measured = measurement.measure(subject, ways, ROUNDS_SHARE * seconds, tell)
    ranking = rank(measured, candidates)
    best = ranking[0].way
    counts = _counts(subject, {way: measured.calls[way] for way in (best, no_lock) if way in measured.calls}, tell)
    accuracy = []
    if validation is not None:
        compared = [row for row in ranking if row.way in (best, no_lock, *own[:1])]
        accuracy = _accuracies(subject, compared, validation, EQUAL_SHARE * seconds, tell)  # type: ignore[arg-type]
    return Advice(
        subject=subject.description,
        machine=f"{display_name(platform_facts())}; {processors} processors may be used",
        workers=workers,
        consistency=consistency,
        rounds=measured.rounds,
        disturbed=None if measured.state is None else measured.state.disturbed,
        ranking=ranking,
        counts=counts,
        accuracy=accuracy,
        lines=subject.lines(best, consistency),
        left_out={str(way): reason for way, reason in measured.left_out.items()},
    )


def rank(measured: Measured, candidates: Sequence[Way]) -> list[Ranked]:
    """The measured ways, the fastest candidate first; then the others, which are shown for comparison.

    Raises BadInput if no candidate was measured.
    """
    known = [way for way in candidates if way in measured.us]
    if not known:
        reasons = "; ".join(f"{way}: {reason}" for way, reason in measured.left_out.items())
        raise BadInput(f"no strategy could be measured ({reasons}).")
    times = {way: stats.median_interval(us) for way, us in measured.us.items()}
    fastest = min(known, key=lambda way: times[way].estimate)

    def ranked(way: Way) -> Ranked:
        ratio = None if way == fastest else stats.ratio_interval(measured.us[way], measured.us[fastest])
        return Ranked(way, times[way], ratio, way in known)

    others = [way for way in measured.us if way not in known]
    return [ranked(way) for way in (*sorted(known, key=lambda way: times[way].estimate), *others)]


def _json_row(row: Ranked) -> dict[str, Any]:
    ratio, low, high = (None, None, None) if row.ratio is None else row.ratio[:3]
    return {
        "strategy": row.way.strategy, "workers": row.way.workers, "steps_per_call": row.way.per_call,
        "us_per_step": row.us.estimate, "ratio": ratio, "ratio_low": low, "ratio_high": high,
        "candidate": row.candidate,
    }  # fmt: skip


def _check(workers: int, consistency: str, seconds: float) -> automatic.Consistency:
    automatic.check_workers(workers)
    if not isinstance(seconds, int | float) or not 10 <= seconds <= 3600:
        raise BadInput(f"seconds is {seconds!r}, but should be a number from 10 to 3,600.")
    return check_consistency(consistency)


def _counts(subject: Subject, calls: Mapping[Way, int], tell: Tell) -> dict[str, Counted | str]:
    counts: dict[str, Counted | str] = {}
    for way, n in calls.items():
        tell(f"counting what {way.strategy} loses")
        try:
            counts[str(way.strategy)] = subject.count(way, n)
        except BadInput as error:
            counts[str(way.strategy)] = str(error)
    return counts


def _accuracies(
    rehearsal: Rehearsal, rows: Sequence[Ranked], validation: Any, seconds: float, tell: Tell
) -> list[Accuracy]:
    """Train for about the same time in each way, as long as its measured time per step says, and evaluate."""
    reached = []
    for row in rows:
        tell(f"training for {seconds:.0f} s: {row.way}")
        calls = max(row.way.workers, round(seconds * 1e6 / (row.us.estimate * row.way.per_call)))
        taken = rehearsal.run(row.way, calls)
        reached.append(Accuracy(row.way, taken, rehearsal.evaluate(validation)))
    return reached
