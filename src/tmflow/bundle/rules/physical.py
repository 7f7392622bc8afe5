"""Values that no machine can give: times, counts and rates beyond what is physically possible, and texts without end.

The bounds of times and counts are those of `tmflow.platform.bounds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from tmflow.base.canonical_json import leaves
from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Known
from tmflow.platform.bounds import LONGEST_S, STEP_S
from tmflow.runfile.reader import ReadRun
from tmflow.runfile.record import Run

HIGHEST_LOAD = 1e6  # processes that want to run
CLOCK_SET_S = 200 * LONGEST_S  # a clock without a battery begins decades ago
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)  # of such a clock
MOST_ROUNDS = 999_999  # that the name of a run file has digits for
MOST_IN_ORDER = 10_000_000  # trials of a round

LONGEST_TEXT = 2_000  # characters of one; that of all compiler flags, and the reason why a run failed, are below 1,000
LONGEST_PART = 200_000  # of all texts and names of one part of a run: its platform, its experiment, ...
_PARTS = ("backend", "campaign", "environment", "experiment", "platform", "software")

_OF_VARIABLES = ("aborts", "retries", "reads")  # lists with names of variables that no other rule looks at
_DURATIONS = ("setup_s", "evaluation_s", "total_s")
_MACHINE = {"load1_before": HIGHEST_LOAD, "load1_after": HIGHEST_LOAD, "suspended_s": LONGEST_S}
_COUNTED = {
    "counters": ("updates", "commits", "fallbacks", "attempts"),
    "aborts": ("n",),
    "staleness": ("staleness", "steps"),
    "retries": ("sections",),
    "reads": ("reads",),
}
_OF_STEPS = ("updates", "steps", "staleness")  # columns of counts that are no more than the steps of a run
_FACTS = {  # the most of each
    "sockets": 10**4,
    "numa_nodes": 10**5,
    "cores_physical": 10**7,
    "threads_logical": 10**7,
    "l1d_bytes": 10**12,
    "l1d_ways": 10**6,
    "l2_bytes": 10**13,
    "l3_bytes": 10**14,
    "cacheline_bytes": 10**6,
    "memory_bytes": 10**17,
    "freq_max_hz": 10**12,
}


def times(read: ReadRun, known: Known) -> Iterator[Fault]:
    """A trial takes as long as its steps at least, and less than a year; so do its parts."""
    run = read.run
    if run.loop_s is not None:
        least_s = -(-known.spec.iterations // known.spec.threads) * STEP_S
        if run.loop_s < least_s:
            yield Fault("loop_s", f"{run.loop_s} s, but the steps of one worker take no less than {least_s:.3g} s.")
        yield from _at_most("loop_s", run.loop_s, LONGEST_S)
    for name in _DURATIONS:
        yield from _at_most(name, getattr(run, name), LONGEST_S)
    yield from _all_at_most(read, "curve", "elapsed_s", LONGEST_S)
    of_trial_s = _lasted_s(run)
    for name in ("lock_waited_s", "lock_held_s"):
        yield from _all_at_most(read, "counters", name, of_trial_s)


def machine(read: ReadRun, known: Known) -> Iterator[Fault]:
    """Its load is one that a machine can have, and its clock was set within the time that there are clocks."""
    if read.run.machine is None:
        return
    for name, most in _MACHINE.items():
        value = getattr(read.run.machine, name)
        yield from _at_most(f"machine.{name}", value, most)
        if value is not None and value < 0:
            yield Fault(f"machine.{name}", f"{value} is below 0.")
    moved_s = read.run.machine.clock_moved_s
    yield from _at_most("machine.clock_moved_s", None if moved_s is None else abs(moved_s), CLOCK_SET_S)


def counts(read: ReadRun, known: Known) -> Iterator[Fault]:
    """Nothing is counted more often than once in a nanosecond, and no more is updated than there are steps."""
    run, iterations = read.run, known.spec.iterations
    most = int(_lasted_s(run) / STEP_S)
    for name, columns in _COUNTED.items():
        for column in columns:
            yield from _all_at_most(read, name, column, iterations if column in _OF_STEPS else most)
    for at, row in enumerate(read.lists.get("lost", ())):
        yield from _at_most(f"lost.{at}.expected", row.expected, known.elements.get(row.variable, 1) * iterations)
    yield from _at_most("round", run.round, MOST_ROUNDS)
    yield from _at_most("ordinal", run.ordinal, MOST_IN_ORDER)


def dates(read: ReadRun, known: Known) -> Iterator[Fault]:
    """Nothing ran before computers counted time."""
    run = read.run
    for field, text in (
        ("started_at_utc", run.started_at_utc),
        ("campaign.created_at_utc", run.campaign.created_at_utc),
    ):
        if datetime.fromisoformat(text) < EARLIEST:
            yield Fault(field, f"{text} is before {EARLIEST.date()}.")


def facts(platform: Mapping[str, Any]) -> Iterator[Fault]:
    """A machine has no more of anything than a machine can have."""
    for name, most in _FACTS.items():
        yield from _at_most(f"platform.{name}", platform.get(name), most)


def texts(read: ReadRun, known: Known) -> Iterator[Fault]:
    """None is long, of those that are a run's alone; `shared_texts` is about the others."""
    run = read.run
    for name in ("reason", "dataset_sha256", "started_at_utc"):
        yield from _at_most_long(name, getattr(run, name))
    for name in ("profile", "library"):
        yield from _at_most_long(f"spec.{name}", getattr(run.spec, name))
    for name in _OF_VARIABLES:
        for at, row in enumerate(read.lists.get(name, ())):
            yield from _at_most_long(f"{name}.{at}.variable", row.variable)
    for at, variable in enumerate(run.fused):
        yield from _at_most_long(f"fused.{at}", variable)


def shared_texts(run: Run) -> Iterator[Fault]:
    """Of what many runs share: no text is long, and neither are all of one part together."""
    for part, value in run.model_dump(mode="json", include=set(_PARTS), exclude_none=True).items():
        n = 0
        for path, leaf in leaves(value):
            n += len(path)
            if isinstance(leaf, str):
                n += len(leaf)
                yield from _at_most_long(f"{part}.{path}", leaf)
        if n > LONGEST_PART:
            yield Fault(part, f"its names and texts have {n:,} characters; the most allowed are {LONGEST_PART:,}.")


def _all_at_most(read: ReadRun, name: str, column: str, most: float) -> Iterator[Fault]:
    for at, value in enumerate(map(attrgetter(column), read.lists.get(name, ()))):
        if value is not None and value > most:
            yield from _at_most(f"{name}.{at}.{column}", value, most)


def _at_most_long(field: str, text: str | None) -> Iterator[Fault]:
    if text is not None and len(text) > LONGEST_TEXT:
        yield Fault(field, f"a text of {len(text):,} characters; the most allowed are {LONGEST_TEXT:,}.")


def _lasted_s(run: Run) -> float:
    """How long nothing in a trial can have taken more; in virtual time, a year."""
    if run.total_s is None or run.time_domain != "wall":
        return LONGEST_S
    return min(run.total_s, LONGEST_S)


def _at_most(field: str, value: float | None, most: float) -> Iterator[Fault]:
    if value is not None and value > most:
        yield Fault(field, f"{value} is more than is possible: {most:.6g}.")
