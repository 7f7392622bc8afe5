"""Advice: which way to synchronise is the fastest for a model, and what the others cost."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import mean
from typing import Any

from tmflow.advice import measurement, text
from tmflow.advice.archive import Archive
from tmflow.advice.candidates import NO_LOCK, Step, Way, check_consistency, other_workers, strategies_for
from tmflow.advice.measurement import Counts, Measurement, Subject
from tmflow.analysis import stats
from tmflow.base.errors import BadInput
from tmflow.base.locks import machine_to_itself
from tmflow.native import automatic
from tmflow.platform.facts import display_name, platform_facts
from tmflow.spec.shapes import parse_shapes

ROUNDS_SHARE = 0.7  # of the time; the rest is for the counts and the accuracy
EQUAL_SHARE = 0.08  # of the time: one training of those whose accuracy is compared
PARTS: tuple[Step, ...] = ("without update", "with copies")
Progress = Callable[[str], Any]
Reach = Callable[[Way, int], tuple[float, dict[str, float]]]
"""Trains in a way by so many calls: the seconds that it took, and the loss and metrics reached."""


@dataclass(frozen=True)
class RankedWay:
    """A way of training: microseconds per step, and its time over that of the fastest candidate, paired by round.

    us: the geometric mean of the rounds. ratio: None for the fastest itself; the 95 % intervals of the candidates hold
    together (Bonferroni). candidate: False for those that are shown for comparison.
    """

    way: Way
    us: float
    ratio: stats.Interval | None
    candidate: bool


@dataclass(frozen=True)
class StepParts:
    """The times of parts of a way's step over that of the step, paired by round; None for what was not measured.

    in_place: whether the step reads the variables in place; otherwise it reads none. computing: without the update.
    copying: with copies of the variables that are read first.
    """

    way: Way
    in_place: bool
    computing: stats.Interval | None
    copying: stats.Interval | None


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
    of no lock, or the reason why they cannot be counted. parts: of a step of the first candidate. lines: what to
    change. left_out: ways that were not measured, with the reason. saved: the folder of the run files, if they were
    asked for and are stored. not_saved: the sentence that says why they are not.
    """

    subject: str
    machine: str
    workers: int
    consistency: str
    rounds: int
    disturbed: bool | None
    ranking: list[RankedWay]
    counts: dict[str, Counts | str]
    parts: StepParts
    accuracy: list[Accuracy]
    lines: list[str]
    left_out: dict[str, str]
    saved: str | None = None
    not_saved: str | None = None

    @property
    def best(self) -> RankedWay:
        """The fastest candidate."""
        return self.ranking[0]

    @property
    def equals(self) -> list[RankedWay]:
        """The other candidates that may be as fast: the interval of the ratio to the fastest contains 1."""
        return [row for row in self.ranking[1:] if row.candidate and row.ratio is not None and row.ratio.low <= 1]

    @property
    def recommended(self) -> RankedWay:
        """The fastest candidate, or what was found to be faster and loses nothing: other workers, or Keras's own."""
        faster = [
            row
            for row in self.ranking
            if not row.candidate and row.way.strategy != NO_LOCK and row.ratio is not None and row.ratio.high < 1
        ]
        return min(faster, key=lambda row: row.us, default=self.best)

    @property
    def finding(self) -> str:
        """Which candidate has the smallest time, from which others no difference was found, and what is faster."""
        return " ".join(text.differences(self))

    def __str__(self) -> str:
        return "\n".join(text.lines(self))

    def as_json(self) -> dict[str, Any]:
        """The advice as JSON types; `steps_per_call` is of TensorFlow."""
        counts = {
            name: {"why": counted} if isinstance(counted, str) else _json_counts(counted)
            for name, counted in self.counts.items()
        }
        ranking, parts = [_json_row(row) for row in self.ranking], _json_parts(self.parts)
        accuracy = [_json_way(one.way) | {"seconds": one.seconds, "reached": one.reached} for one in self.accuracy]
        return asdict(self) | {"ranking": ranking, "counts": counts, "parts": parts, "accuracy": accuracy}


def advise(
    model: Any,
    dataset: Any,
    workers: int = 2,
    *,
    consistency: str = automatic.DEFAULT,
    validation: Any = None,
    seconds: float = 60,
    save: bool = False,
    progress: Progress = lambda _: None,
) -> Advice:
    """Train a compiled Keras model under each strategy that guarantees a consistency, and rank them by time per step.

    dataset: a finite `tf.data.Dataset` of batches. consistency: what concurrent updates of a variable must guarantee,
    "element", "block" or "tensor". validation: a dataset, or (x, y), to compare the accuracy after equal time. seconds:
    about how long it may take, 10 to 3,600; there are at least three rounds. save: write run files to the results
    folder, and store them in the database (docs/your-own-model.md); if that fails after the measurement, `not_saved`
    says why. progress: is called with what happens next.

    All ways are measured in each of several rounds, in shuffled order, and compared within the rounds. Afterwards the
    model has its values again, its metrics are reset, and its optimizer has made no step. Beside the model, memory is
    needed for the slots of some fifteen optimizers. Raises BadInput for a model that cannot be trained so
    (`Workers.fit`), and before it measures if the runs cannot be saved.
    """
    from tmflow.advice.rehearsal import Rehearsal

    guaranteed = check(workers, consistency, seconds)
    rehearsal = Rehearsal(model, dataset, consistency=guaranteed)
    try:
        if validation is not None:
            rehearsal.check_validation(validation)
        reach = None if validation is None else partial(rehearsal.reached, validation=validation)
        return measured_advice(rehearsal, workers, guaranteed, seconds, reach=reach, save=save, progress=progress)
    finally:
        rehearsal.close()


def advise_for_sizes(
    variables: str,
    step_us: float,
    workers: int = 2,
    *,
    consistency: str = automatic.DEFAULT,
    seconds: float = 60,
    save: bool = False,
    progress: Progress = lambda _: None,
) -> Advice:
    """Rank the strategies for variables of given shapes, such as "3136x1024,1024", without a model.

    variables: see `parse_shapes`; an embedding of which a step updates 64 rows is "100000x16:64". step_us: how long a
    worker computes between two updates. For the rest see `advise`.
    """
    from tmflow.advice.sized_variables import SizedVariables

    guaranteed = check(workers, consistency, seconds)
    subject = SizedVariables(parse_shapes(variables), step_us, consistency=guaranteed)
    return measured_advice(subject, workers, guaranteed, seconds, save=save, progress=progress)


def measured_advice(
    subject: Subject,
    workers: int,
    consistency: automatic.Consistency,
    seconds: float,
    *,
    reach: Reach | None = None,
    save: bool = False,
    progress: Progress,
) -> Advice:
    """Measure the candidates and what is shown for comparison, count, and compare what trainings reach, if they can.

    With `save`, no other timed work of tmflow runs on the machine until the runs are stored.
    """
    if not save:
        return _advice(subject, workers, consistency, seconds, reach, progress)[0]
    archive = Archive(subject, workers, consistency)
    with machine_to_itself():
        advice, measured = _advice(subject, workers, consistency, seconds, reach, progress)
        try:
            return replace(advice, saved=str(archive.store(measured)))
        except BadInput as error:
            return replace(advice, not_saved=str(error))


def _advice(
    subject: Subject,
    workers: int,
    consistency: automatic.Consistency,
    seconds: float,
    reach: Reach | None,
    progress: Progress,
) -> tuple[Advice, Measurement]:
    """The advice, and the measurement that it is based on."""
    processors = len(os.sched_getaffinity(0))
    progress("timing one step")
    per_call = measurement.steps_of_call(subject)
    candidates = [Way(name, workers, per_call) for name in strategies_for(consistency, subject.optimiser)]
    others = [Way(automatic.AUTO, n, per_call) for n in other_workers(workers, processors)]
    of_keras = [Way(None, per_call=n) for n in sorted({1, per_call})] if subject.has_own else []
    no_lock = Way(NO_LOCK, workers, per_call)
    of_step = [replace(way, step=step) for way in candidates[:1] for step in PARTS]
    ways = [*candidates[:2], *of_keras, no_lock, *others, *of_step, *candidates[2:]]  # the last wait if time is short
    measured = measurement.measure(subject, ways, ROUNDS_SHARE * seconds, progress)
    ranking = rank(measured, candidates)
    best = ranking[0].way
    counted = [way for way in (best, no_lock) if way in measured.calls]
    counts = measurement.count(subject, counted, measured, progress)
    accuracy = []
    if reach is not None:
        compared = [row for row in ranking if row.way in (best, no_lock, *of_keras[:1])]
        accuracy = _accuracies(reach, compared, EQUAL_SHARE * seconds, progress)
    advice = Advice(
        subject=subject.description,
        machine=f"{display_name(platform_facts())}; {processors} processors may be used",
        workers=workers,
        consistency=consistency,
        rounds=measured.rounds,
        disturbed=None if measured.state is None else measured.state.disturbed,
        ranking=ranking,
        counts={str(way.strategy): counted for way, counted in counts.items()},
        parts=step_parts(measured, candidates[0], in_place=subject.has_own),
        accuracy=accuracy,
        lines=[],
        left_out={str(way): reason for way, reason in measured.left_out.items()},
    )
    return replace(advice, lines=subject.lines(advice.recommended.way, consistency)), measured


def rank(measured: Measurement, candidates: Sequence[Way]) -> list[RankedWay]:
    """The measured ways, the fastest candidate first; then the others, which are shown for comparison.

    Raises BadInput if no candidate was measured.
    """
    compared = [way for way in candidates if way in measured.us]
    if not compared:
        reasons = "; ".join(f"{way}: {reason}" for way, reason in measured.left_out.items())
        raise BadInput(f"no strategy could be measured ({reasons}).")
    times = {way: math.exp(mean(map(math.log, us))) for way, us in measured.us.items()}
    fastest = min(compared, key=lambda way: times[way])
    confidence = stats.joint_confidence(max(len(compared) - 1, 1))

    def ranked(way: Way) -> RankedWay:
        of_candidate = confidence if way in compared else stats.CONFIDENCE
        ratio = None
        if way != fastest:
            ratio = stats.ratio_interval(measured.us[way], measured.us[fastest], of_candidate)
        return RankedWay(way, times[way], ratio, way in compared)

    others = [way for way in measured.us if way not in compared and way.step == "whole"]
    return [ranked(way) for way in (*sorted(compared, key=lambda way: times[way]), *others)]


def step_parts(measured: Measurement, way: Way, *, in_place: bool) -> StepParts:
    """How long parts of the way's step take, as far as they were measured."""

    def over_whole(step: Step) -> stats.Interval | None:
        part = replace(way, step=step)
        if way not in measured.us or part not in measured.us:
            return None
        return stats.ratio_interval(measured.us[part], measured.us[way])

    return StepParts(way, in_place, *map(over_whole, PARTS))


def _json_parts(parts: StepParts) -> dict[str, Any]:
    ratios = {"computing": parts.computing, "copying": parts.copying}
    values = {name: None if ratio is None else list(ratio[:3]) for name, ratio in ratios.items()}
    way = {"strategy": parts.way.strategy, "workers": parts.way.workers, "reads_in_place": parts.in_place}
    return way | values


def _json_way(way: Way) -> dict[str, Any]:
    return {"strategy": way.strategy, "workers": way.workers, "steps_per_call": way.per_call}


def _json_row(row: RankedWay) -> dict[str, Any]:
    ratio, low, high = (None, None, None) if row.ratio is None else row.ratio[:3]
    return _json_way(row.way) | {
        "us_per_step": row.us, "ratio": ratio, "ratio_low": low, "ratio_high": high,
        "candidate": row.candidate,
    }  # fmt: skip


def _json_counts(counted: Counts) -> dict[str, Any]:
    return {name: getattr(counted, name) for name in ("lost", "reads", "torn", "waited_us", "held_us", "uncounted")}


def check(workers: int, consistency: str, seconds: float) -> automatic.Consistency:
    """The consistency. Raises BadInput for a number or a name that is not allowed."""
    automatic.check_workers(workers)
    if not isinstance(seconds, int | float) or not 10 <= seconds <= 3600:
        raise BadInput(f"seconds is {seconds!r}, but should be a number from 10 to 3,600.")
    return check_consistency(consistency)


def _accuracies(reach: Reach, rows: Sequence[RankedWay], seconds: float, progress: Progress) -> list[Accuracy]:
    """Train for about the same time in each way, as long as its measured time per step says, and evaluate."""
    reached = []
    for row in rows:
        progress(f"training for {seconds:.0f} s: {row.way}")
        calls = max(row.way.workers, round(seconds * 1e6 / (row.us * row.way.per_call)))
        reached.append(Accuracy(row.way, *reach(row.way, calls)))
    return reached
