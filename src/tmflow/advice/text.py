"""An advice as one screen of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tmflow.advice.candidates import NO_LOCK, Way
from tmflow.advice.measurement import Counted
from tmflow.base.text import interval, listed

if TYPE_CHECKING:
    from tmflow.advice.advice import Accuracy, Advice, Ranked


def screen(advice: Advice) -> str:
    """The ranking, what no lock loses, whether more workers help, where the time goes, and the lines to change."""
    return "\n".join(_lines(advice)) + "\n"


def _lines(advice: Advice) -> Iterator[str]:
    disturbed = {True: ", while other programs used the machine", False: "", None: ""}[advice.disturbed]
    yield f"{advice.model}"
    yield f"{advice.machine}"
    yield (
        f"{advice.rounds} rounds{disturbed}; consistency {advice.consistency}; us per step: wall time over the steps of "
        "all workers; [95 % interval]"
    )
    yield ""
    yield from _table(advice)
    yield ""
    yield from _sentences(advice)
    yield ""
    yield from _change(advice)


def _table(advice: Advice) -> Iterator[str]:
    rows = [("", "us per step", f"over {advice.best.way.strategy}'s")]
    rows += [_cells(row) for row in advice.ranking if row.candidate]
    rows.append(("for comparison:", "", ""))
    rows += [_cells(row) for row in advice.ranking if not row.candidate]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(row: Ranked) -> tuple[str, str, str]:
    loses = " (may lose updates)" if row.way.strategy == NO_LOCK else ""
    ratio = "1" if row.ratio is None else interval(*row.ratio[:3])
    return f"{row.way}{loses}", f"{row.us.estimate:.4g}", ratio


def _sentences(advice: Advice) -> Iterator[str]:
    best = advice.best.way.strategy
    if names := [str(row.way.strategy) for row in advice.equals]:
        yield f"No difference between {best} and {listed(names)} was found."
    yield from _workers(advice)
    yield from _counts(advice)
    if advice.accuracy:
        yield from _accuracy(advice.accuracy)
    for way, reason in advice.left_out.items():
        yield f"Not measured: {way}: {reason.rstrip('.')}."


def _workers(advice: Advice) -> Iterator[str]:
    """Whether workers help: the times of one strategy with several numbers of them, and of Keras's own loop."""
    keras = [row for row in advice.ranking if row.way.strategy is None]
    for row in keras:
        if row.ratio is not None:
            speedup = interval(*row.ratio[:3])
            yield f"{advice.workers} workers with {advice.best.way.strategy} are {speedup} times as fast as {_own(row.way)}."
    auto = [row for row in advice.ranking if row.way.strategy == "auto"]
    if len(auto) > 1:
        times = [f"{row.us.estimate:.4g} us with {row.way.workers}" for row in sorted(auto, key=lambda row: row.way.workers)]
        yield f"By the number of workers, auto takes {listed(times)}."


def _own(way: Way) -> str:
    calls = f" with {way.per_call} steps in a call of TensorFlow" if way.per_call > 1 else ""
    return f"Keras's optimizer in one thread{calls}"


def _counts(advice: Advice) -> Iterator[str]:
    for strategy, counted in advice.counts.items():
        if isinstance(counted, str):
            yield f"Not counted under {strategy}: {counted.rstrip('.')}."
            continue
        if counted.lost is not None:
            lost = "no update" if counted.lost == 0 else f"{100 * counted.lost:.2g} % of the updates of elements"
            yield f"{strategy} lost {lost} in a run that counts."
        yield from _time(strategy, counted)


def _time(strategy: str, counted: Counted) -> Iterator[str]:
    if counted.waiting is None or counted.holding is None:
        return
    rest = 1 - counted.waiting - counted.holding
    yield (
        f"Of the workers' time under {strategy}, {100 * counted.waiting:.2g} % went into waiting for locks, "
        f"{100 * counted.holding:.2g} % into updates under locks, and {100 * rest:.2g} % into the rest: reading, the "
        "gradients, and TensorFlow's own work."
    )


def _accuracy(reached: Sequence[Accuracy]) -> Iterator[str]:
    yield "After one training of about the same time each, from the same values:"
    for one in reached:
        values = ", ".join(f"{name} {value:.4g}" for name, value in one.reached.items())
        yield f"  {one.way}: {values} ({one.seconds:.1f} s)"


def _change(advice: Advice) -> Iterator[str]:
    best = advice.best.way
    chosen = f"consistency={advice.consistency!r}" if best.strategy == "auto" else f"strategy={best.strategy!r}"
    yield "Change these lines:"
    yield "  import tmflow"
    yield f"  model.compile({advice.spelling}, {chosen}), loss=..., metrics=...)"
    yield f"  tmflow.Workers({advice.workers}).fit(model, dataset, epochs=...)"
