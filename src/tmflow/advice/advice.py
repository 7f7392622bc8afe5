"""`tmflow.advise`: which way to synchronise is the fastest for one's own model, and what the others cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tmflow.advice import measurement
from tmflow.advice.candidates import NO_LOCK, Way, check_consistency, other_workers, strategies_for
from tmflow.advice.measurement import Counted, Measured
from tmflow.advice.rehearsal import Rehearsal
from tmflow.analysis import stats
from tmflow.base.errors import BadInput
from tmflow.native import automatic
from tmflow.platform.facts import display_name, platform_facts

ROUNDS_SHARE = 0.6  # of the time; the rest is for the counts and the accuracy
EQUAL_SHARE = 0.08  # of the time: one training of those whose accuracy is compared


@dataclass(frozen=True)
class Ranked:
    """A way of training: microseconds per step, and its time over that of the fastest candidate, paired by round.

    ratio: with its 95 % interval, None for the fastest itself. candidate: False for those that are shown for comparison.
    """

    way: Way
    us: stats.Interval
    ratio: stats.Interval | None
    candidate: bool


@dataclass(frozen=True)
class Accuracy:
    """What a way has reached after training for so many seconds, once, from the values of the beginning."""

    way: Way
    seconds: float
    reached: dict[str, float]


@dataclass(frozen=True)
class Advice:
    """What was measured; `str(advice)` says it in one screen.

    ranking: the candidates, the fastest first, and then the ways for comparison. counts: of the fastest candidate and
    of no lock, as far as they can be counted, or the reason why not.
    """

    model: str
    machine: str
    workers: int
    consistency: str
    rounds: int
    disturbed: bool | None
    per_call: int
    ranking: list[Ranked]
    counts: dict[str, Counted | str]
    accuracy: list[Accuracy]
    left_out: dict[str, str]
    spelling: str

    @property
    def best(self) -> Ranked:
        """The fastest candidate."""
        return self.ranking[0]

    @property
    def equals(self) -> list[Ranked]:
        """The other candidates in whose ratio to the fastest no difference was found."""
        return [row for row in self.ranking[1:] if row.candidate and row.ratio is not None and _contains_one(row.ratio)]

    def row(self, way: Way) -> Ranked | None:
        """The row of a way."""
        return next((row for row in self.ranking if row.way == way), None)

    def __str__(self) -> str:
        from tmflow.advice.text import screen

        return screen(self)


def advise(
    model: Any,
    dataset: Any,
    workers: int = 2,
    *,
    consistency: str = automatic.DEFAULT,
    validation: Any = None,
    seconds: float = 60,
    tell: Callable[[str], Any] = lambda _: None,
) -> Advice:
    """Train a compiled Keras model under each strategy that guarantees a consistency, and rank them by time per step.

    dataset: a finite `tf.data.Dataset` of batches. consistency: what concurrent updates of a variable must guarantee,
    "element", "block" or "tensor". validation: a dataset, or (x, y), to compare the accuracy at equal time. seconds:
    for the measurement, at least 10. tell: is told what happens.

    All ways are measured in each of several rounds, in shuffled order, and compared within the rounds. The model and
    its optimizer are afterwards as they were. Raises BadInput for a model that cannot be trained so (`Workers.fit`).
    """
    automatic.check_workers(workers)
    guaranteed = check_consistency(consistency)
    if not isinstance(seconds, int | float) or not 10 <= seconds <= 3600:
        raise BadInput(f"seconds is {seconds!r}, but should be a number from 10 to 3,600.")
    rehearsal = Rehearsal(model, dataset, consistency=guaranteed)
    try:
        tell("timing one step")
        per_call, step_s = measurement.steps_of_call(rehearsal)
        candidates = [Way(name, workers, per_call) for name in strategies_for(guaranteed, rehearsal.optimiser)]
        others = [Way(automatic.AUTO, n, per_call) for n in other_workers(workers, len(os.sched_getaffinity(0)))]
        own = [Way(None), *([Way(None, per_call=per_call)] if per_call > 1 else [])]
        ways = [*candidates[:2], *own, Way(NO_LOCK, workers, per_call), *others[:1], *candidates[2:], *others[1:]]
        measured = measurement.measure(rehearsal, ways, step_s, ROUNDS_SHARE * seconds, tell)
        ranking = rank(measured, candidates)
        best = ranking[0].way
        counts = _counts(rehearsal, [best, Way(NO_LOCK, workers, per_call)], step_s, tell)
        compared = [best, own[0], Way(NO_LOCK, workers, per_call)]
        accuracy = (
            []
            if validation is None
            else _accuracies(rehearsal, ranking, compared, validation, EQUAL_SHARE * seconds, tell)
        )
        elements = sum(rehearsal.sizes)
        return Advice(
            model=f"{model.name}: {elements:,} parameters in {len(rehearsal.sizes)} variables",
            machine=f"{display_name(platform_facts())}; {len(os.sched_getaffinity(0))} processors may be used",
            workers=workers,
            consistency=guaranteed,
            rounds=measured.rounds,
            disturbed=None if measured.state is None else measured.state.disturbed,
            per_call=per_call,
            ranking=ranking,
            counts=counts,
            accuracy=accuracy,
            left_out={str(way): reason for way, reason in measured.left_out.items()},
            spelling=rehearsal.spelling,
        )
    finally:
        rehearsal.close()


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


def _counts(
    rehearsal: Rehearsal, ways: Sequence[Way], step_s: float, tell: Callable[[str], Any]
) -> dict[str, Counted | str]:
    counts: dict[str, Counted | str] = {}
    for way in ways:
        tell(f"counting {way.strategy}")
        try:
            counted = Way(way.strategy, way.workers, way.per_call, counted=True)
            counts[str(way.strategy)] = measurement.count(rehearsal, counted, step_s)
        except BadInput as error:
            counts[str(way.strategy)] = str(error)
    return counts


def _accuracies(
    rehearsal: Rehearsal,
    ranking: Sequence[Ranked],
    ways: Sequence[Way],
    validation: Any,
    seconds: float,
    tell: Callable[[str], Any],
) -> list[Accuracy]:
    """Train for about the same time in each way, as long as its measured time per step says, and evaluate."""
    reached = []
    for row in ranking:
        if row.way not in ways:
            continue
        tell(f"training for {seconds:.0f} s: {row.way}")
        calls = max(row.way.workers, round(seconds * 1e6 / (row.us.estimate * row.way.per_call)))
        taken = rehearsal.run(row.way, calls)
        reached.append(Accuracy(row.way, taken, rehearsal.evaluate(validation)))
    return reached


def _contains_one(interval: stats.Interval) -> bool:
    return interval.low is None or interval.high is None or interval.low <= 1 <= interval.high
