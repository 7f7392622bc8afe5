"""An advice as one screen of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tmflow.advice.candidates import NO_LOCK
from tmflow.base.text import interval, listed
from tmflow.native.automatic import AUTO

if TYPE_CHECKING:
    from tmflow.advice.advice import Accuracy, Advice, RankedWay, StepParts
    from tmflow.advice.measurement import Counts


CONCLUSIVE_ROUNDS = 6


def lines(advice: Advice) -> Iterator[str]:
    """The ranking, whether more workers help, what no lock loses, where the time goes, and what to change."""
    yield advice.subject
    yield advice.machine
    disturbed = ", while other programs used the machine" if advice.disturbed else ""
    yield f"{advice.rounds} rounds{disturbed}; consistency {advice.consistency}; [95 % interval]"
    yield ""
    yield from _table(advice)
    yield (
        "us per step: wall time over the steps of all workers, geometric mean of the rounds. The ratios are paired by "
        "round. The intervals of the strategies are simultaneous (Bonferroni), those for comparison are not."
    )
    yield ""
    yield from differences(advice)
    yield from _workers(advice)
    yield from _parts(advice.parts, advice.rounds)
    yield from _losses(advice.counts)
    yield from _accuracy(advice.accuracy)
    for way, reason in advice.left_out.items():
        yield f"Not measured: {way}: {reason.rstrip('.')}."
    yield ""
    yield "To train so:"
    yield from (f"    {line}" for line in advice.lines)
    if advice.not_saved is not None:
        yield f"Saving failed: {advice.not_saved}"


def _table(advice: Advice) -> Iterator[str]:
    rows = [("", "us per step", f"time over {advice.best.way.strategy}'s")]
    rows += [_cells(row) for row in advice.ranking if row.candidate]
    rows += [("for comparison", "", ""), *(_cells(row) for row in advice.ranking if not row.candidate)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(row: RankedWay) -> tuple[str, str, str]:
    loses = " (may lose updates)" if row.way.strategy == NO_LOCK else ""
    ratio = "1" if row.ratio is None else interval(*row.ratio[:3])
    return f"{row.way}{loses}", _number(row.us), ratio


def differences(advice: Advice) -> Iterator[str]:
    """The candidate with the smallest time, those from which no difference was found, and what is faster."""
    best = advice.best.way.strategy
    if sum(row.candidate for row in advice.ranking) == 1:
        yield f"{best} is the only strategy that was measured."
    elif names := [str(row.way.strategy) for row in advice.equals]:
        yield f"{best} has the smallest time, but no difference to {listed(names)} was found."
    elif advice.rounds < CONCLUSIVE_ROUNDS:
        yield f"{best} has the smallest time, but {advice.rounds} rounds are too few to conclude: allow more seconds."
    else:
        yield f"{best} is faster than each of the others that were measured with it."
    if advice.recommended != advice.best:
        yield f"{advice.recommended.way} is faster than all of them."


def _workers(advice: Advice) -> Iterator[str]:
    """Whether workers help: the times of `auto` with several numbers of them, and of Keras's own optimizer."""
    for row in advice.ranking:
        if row.way.strategy is None and row.ratio is not None:
            calls = f" with {row.way.per_call} steps in a call" if row.way.per_call > 1 else ""
            took = f"{interval(*row.ratio[:3])} times as long"
            yield f"Keras's optimizer in one thread{calls} takes {took} as {advice.best.way} for a step."
    of_auto = sorted((row for row in advice.ranking if row.way.strategy == AUTO), key=lambda row: row.way.workers)
    if len(of_auto) > 1:
        times = [f"{_number(row.us)} us with {row.way.workers}" for row in of_auto]
        yield f"By the number of workers, auto takes {listed(times)}."


def _parts(parts: StepParts, rounds: int) -> Iterator[str]:
    """What of a step is computing and reading, what the update, and what copies of the variables would cost."""
    if parts.computing is not None:
        without = f"Without its update a step of {parts.way} takes {interval(*parts.computing[:3])} of the time"
        if parts.computing.high < 1:
            computed = "computing and reading the variables in place" if parts.in_place else "the work between updates"
            reading = ", and what updates of others cost the reading" if parts.in_place else ""
            yield f"{without}: that is {computed}. The rest is the update with its waiting{reading}."
        else:
            yield f"{without}: no time of the update was found."
    if parts.copying is not None:
        copies = 'With reads="values"' if parts.in_place else "If it copies the variables first,"
        takes = f"{copies} a step of {parts.way} takes {interval(*parts.copying[:3])} of the time"
        if parts.copying.low <= 1 <= parts.copying.high:
            yield f"{takes}: no difference was found."
        elif rounds < CONCLUSIVE_ROUNDS:
            yield f"{takes}, but {rounds} rounds are too few to conclude."
        elif parts.copying.high < 1 and parts.in_place:
            yield f"{takes}: it is an argument of fit."
        else:
            yield f"{takes}."


def _losses(counts: Mapping[str, Counts | str]) -> Iterator[str]:
    for strategy, counted in counts.items():
        yield from _counted(strategy, counted)
    if any(not isinstance(counted, str) and counted.torn is not None for counted in counts.values()):
        yield (
            "A read of a variable is torn if it has an update in one part and lacks it in another. Counted are copies "
            "that each step of that run makes first; what a step reads in place changes while it computes, too."
        )


def _counted(strategy: str, counted: Counts | str) -> Iterator[str]:
    if isinstance(counted, str):
        yield f"What {strategy} loses is not counted: {counted.rstrip('.')}."
        return
    if counted.lost is not None:
        lost = "no update" if counted.lost == 0 else f"{_share(counted.lost)} of the updates of elements"
        yield f"{strategy} lost {lost} in a run that counts, and {_torn(counted)}."
    if counted.waited_us is not None and counted.held_us is not None:
        yield (
            f"A step's updates waited {_number(counted.waited_us)} us for locks in it and held them for "
            f"{_number(counted.held_us)} us, summed over the variables."
        )


def _torn(counted: Counts) -> str:
    if counted.torn is None or not counted.reads:
        reason = "" if counted.uncounted is None else f" ({counted.uncounted.rstrip('.')})"
        return f"torn reads are not counted{reason}"
    torn = _share(counted.torn / counted.reads) if counted.torn else "none"
    return f"{torn} of its {counted.reads:,} counted reads were torn"


def _number(value: float) -> str:
    """Four digits, but whole numbers in full."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _share(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def _accuracy(reached: Sequence[Accuracy]) -> Iterator[str]:
    if reached:
        yield "After one training of about the same time each, from the same values:"
    for one in reached:
        values = ", ".join(f"{name} {value:.4g}" for name, value in one.reached.items())
        yield f"    {one.way} ({one.seconds:.1f} s): {values}"
