"""Rules on physical limits: times, counts and speeds that no machine can have, and overlong texts.

The bounds of times and counts are those of `tmflow.platform.facts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from tmflow.base.canonical_json import leaves
from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Expectations
from tmflow.platform.facts import LONGEST_S, MOST_COUNTED, STEP_S
from tmflow.runfile.reader import ReadRun
from tmflow.runfile.record import TRAFFIC, Run

HIGHEST_LOAD = 1e6  # runnable processes
CLOCK_SET_S = 200 * LONGEST_S  # a clock without a battery starts decades in the past
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)  # the start of such a clock
MOST_ROUNDS = 999_999  # limited by the digits in the name of a run file
MOST_IN_ORDER = 10_000_000  # trials of a round

LONGEST_TEXT = 2_000  # characters; the longest real ones, compiler flags and reasons of failures, stay below 1,000
LONGEST_PART = 200_000  # characters of all texts and names of one part of a run, such as its platform
_PARTS = ("backend", "campaign", "environment", "experiment", "platform", "software")

_OF_VARIABLES = ("aborts", "retries", "reads")  # lists whose names of variables no other rule checks
_DURATIONS = ("setup_s", "evaluation_s", "total_s")
_MACHINE = {"load1_before": HIGHEST_LOAD, "load1_after": HIGHEST_LOAD, "suspended_s": LONGEST_S}
_COUNTED = {
    "counters": ("updates", "commits", "fallbacks", "attempts"),
    "aborts": ("n",),
    "staleness": ("staleness", "steps"),
    "retries": ("sections",),
    "reads": ("reads",),
    "processes": ("steps",),  # in mode sync more than the run's, because gradients that come late are dropped
    "phases": ("samples",),
}
# Columns whose counts cannot exceed the steps of a run.
_OF_STEPS = (("counters", "updates"), ("staleness", "steps"), ("staleness", "staleness"))
# Columns of seconds that are no longer than the trial.
_PARTS_OF_TRIAL = {"counters": ("lock_waited_s", "lock_held_s"), "processes": ("loop_s",), "phases": ("seconds",)}
_FACTS = {  # upper bounds
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


def times(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """A trial and its parts take at least the time of the steps, and less than a year."""
    run = read.run
    if run.loop_s is not None:
        least_s = -(-expectations.spec.iterations // expectations.spec.threads) * STEP_S
        if run.loop_s < least_s:
            yield Fault("loop_s", f"{run.loop_s} s, but the steps of one worker take no less than {least_s:.3g} s.")
        yield from _at_most("loop_s", run.loop_s, LONGEST_S)
    for name in _DURATIONS:
        yield from _at_most(name, getattr(run, name), LONGEST_S)
    yield from _all_at_most(read, "curve", "elapsed_s", LONGEST_S)
    of_trial_s = _max_duration_s(run)
    for name, columns in _PARTS_OF_TRIAL.items():
        for column in columns:
            yield from _all_at_most(read, name, column, of_trial_s)
    yield from _all_at_most(read, "processes", "cpu_s", LONGEST_S)  # of all its threads together


def updates(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """No worker updates faster than a single thread that does nothing else and has the memory to itself."""
    run, rows = read.run, read.lists.get("counters", ())
    if not expectations.update_s or run.loop_s is None or run.time_domain != "wall" or not run.shows_time:
        return
    least_s: dict[int, float] = defaultdict(float)
    for row in rows:
        least_s[row.worker] += row.updates * expectations.update_s.get(row.variable, 0)
    if not rows:  # no counters; the first worker has the most steps
        least_s[0] = -(-expectations.spec.iterations // expectations.spec.threads) * sum(expectations.update_s.values())
    if run.loop_s < (slowest := max(least_s.values())):
        yield Fault(
            "loop_s",
            f"{run.loop_s} s, but by its probe this machine cannot make the updates of one worker in less than "
            f"{slowest:.3g} s, without any other work.",
        )


def machine(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """The load average is possible, and clock changes stay within the age of clocks."""
    if read.run.machine is None:
        return
    for name, most in _MACHINE.items():
        value = getattr(read.run.machine, name)
        yield from _at_most(f"machine.{name}", value, most)
        if value is not None and value < 0:
            yield Fault(f"machine.{name}", f"{value} is below 0.")
    moved_s = read.run.machine.clock_moved_s
    yield from _at_most("machine.clock_moved_s", None if moved_s is None else abs(moved_s), CLOCK_SET_S)


def counts(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Counts stay below one per nanosecond, and updates do not exceed the steps."""
    run, iterations = read.run, expectations.spec.iterations
    most = int(_max_duration_s(run) / STEP_S)
    for name, columns in _COUNTED.items():
        for column in columns:
            yield from _all_at_most(read, name, column, iterations if (name, column) in _OF_STEPS else most)
    for at, row in enumerate(read.lists.get("lost", ())):
        yield from _at_most(
            f"lost.{at}.expected", row.expected, expectations.elements.get(row.variable, 1) * iterations
        )
    for column in TRAFFIC:
        yield from _all_at_most(read, "phases", column, MOST_COUNTED)
    yield from _at_most("round", run.round, MOST_ROUNDS)
    yield from _at_most("ordinal", run.ordinal, MOST_IN_ORDER)


def dates(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """No run started before 1970."""
    run = read.run
    for field, text in (
        ("started_at_utc", run.started_at_utc),
        ("campaign.created_at_utc", run.campaign.created_at_utc),
    ):
        if datetime.fromisoformat(text) < EARLIEST:
            yield Fault(field, f"{text} is before {EARLIEST.date()}.")


def facts(platform: Mapping[str, Any]) -> Iterator[Fault]:
    """The numbers in the facts of a machine stay within bounds."""
    for name, most in _FACTS.items():
        yield from _at_most(f"platform.{name}", platform.get(name), most)


def texts(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """The texts of a single run are short; `shared_texts` checks the others."""
    run = read.run
    for name in ("reason", "dataset_sha256", "started_at_utc"):
        yield from _at_most_long(name, getattr(run, name))
    for name in ("profile", "library"):
        yield from _at_most_long(f"spec.{name}", getattr(run.spec, name))
    for name in _OF_VARIABLES:
        for at, row in enumerate(read.lists.get(name, ())):
            yield from _at_most_long(f"{name}.{at}.variable", row.variable)
    for at, row in enumerate(read.lists.get("processes", ())):
        yield from _at_most_long(f"processes.{at}.host", row.host)
    for at, variable in enumerate(run.fused):
        yield from _at_most_long(f"fused.{at}", variable)


def shared_texts(run: Run) -> Iterator[Fault]:
    """The texts that runs share are short, and so is their total in each part."""
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


def _max_duration_s(run: Run) -> float:
    """The longest possible duration of anything in a trial; a year in virtual time."""
    if run.total_s is None or run.time_domain != "wall":
        return LONGEST_S
    return min(run.total_s, LONGEST_S)


def _at_most(field: str, value: float | None, most: float) -> Iterator[Fault]:
    if value is not None and value > most:
        yield Fault(field, f"{value} is more than is possible: {most:.6g}.")
