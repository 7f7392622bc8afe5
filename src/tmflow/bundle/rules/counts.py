"""Rules on counts: attempts, critical sections, updates and steps must add up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Expectations
from tmflow.runfile.reader import ReadRun

_OF_WORKERS = ("counters", "aborts", "staleness", "retries", "failed_publications", "taken_blocks", "reads")


def attempts_end(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """For each worker and variable, attempts equal commits plus aborts, and aborts have a counter."""
    aborted: dict[tuple[int, str], int] = defaultdict(int)
    for row in read.lists.get("aborts", ()):
        aborted[row.worker, row.variable] += row.n
    for at, row in enumerate(read.lists.get("counters", ())):
        worker, variable, attempts, commits = row.worker, row.variable, row.attempts, row.commits
        n_aborts = aborted.pop((worker, variable), 0)
        if attempts is not None and commits is not None and attempts != commits + n_aborts:
            yield Fault(
                f"counters.{at}.attempts",
                f"worker {worker} made {attempts} attempts on {variable}, which ended in {commits} commits and "
                f"{n_aborts} aborts: {commits + n_aborts} in all.",
            )
    for (worker, variable), n in aborted.items():
        yield Fault("aborts", f"worker {worker} has {n} aborts on {variable}, but no counter of it.")


def sections_are_updates(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Commits plus fallbacks equal updates, or their chunks; strategies without transactions have neither."""
    for at, row in enumerate(read.lists.get("counters", ())):
        commits, fallbacks = row.commits, row.fallbacks
        if expectations.mechanism is None:
            if (row.attempts, commits, fallbacks) != (None, None, None):
                yield Fault(
                    f"counters.{at}", f"{expectations.spec.strategy} tries no transactions, but some are counted."
                )
        elif commits is not None and fallbacks is not None:
            yield from _sections(at, row.variable, commits + fallbacks, row.updates, expectations)
    if expectations.mechanism is None and "aborts" in read.lists:
        yield Fault("aborts", f"{expectations.spec.strategy} tries no transactions, but some aborted.")


def _sections(at: int, variable: str, sections: int, updates: int, expectations: Expectations) -> Sequence[Fault]:
    if expectations.sections is None:
        expected, is_right = f"{updates} or more", sections >= updates
    else:
        n = updates * expectations.sections.get(variable, 1)
        expected, is_right = str(n), sections == n
    if is_right:
        return ()
    text = (
        f"{updates} updates of {variable} are {expected} critical sections, but commits and fallbacks are {sections}."
    )
    return [Fault(f"counters.{at}", text)]


def updates_are_iterations(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Each step of a successful trial updates each variable of the model once."""
    updates = dict.fromkeys(expectations.elements, 0)
    rows = read.lists.get("counters", ())
    for at, row in enumerate(rows):
        if row.variable not in updates:
            valid = ", ".join(updates)
            yield Fault(
                f"counters.{at}.variable", f"{expectations.spec.model} has no variable {row.variable!r}: {valid}."
            )
        else:
            updates[row.variable] += row.updates
    if read.run.status != "ok" or not rows:
        return
    for variable, n in updates.items():
        if n != expectations.spec.iterations:
            yield Fault("counters", f"{n} updates of {variable} in all, but {expectations.spec.iterations} iterations.")


def steps_are_iterations(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Each step of a successful trial has a staleness."""
    rows = read.lists.get("staleness", ())
    steps = sum([row.steps for row in rows])
    if read.run.status == "ok" and rows and steps != expectations.spec.iterations:
        yield Fault("staleness", f"{steps} steps in all, but {expectations.spec.iterations} iterations.")


def workers_are_threads(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Workers are numbered from 0 to threads - 1."""
    threads = expectations.spec.threads
    for name in _OF_WORKERS:
        rows = read.lists.get(name)
        if rows and (last := max([row.worker for row in rows])) >= threads:
            yield Fault(name, f"there is a worker {last}, but threads is {threads}, and the first worker is 0.")


def losses_are_of_updates(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Each element of a variable is to be updated in each step."""
    for at, row in enumerate(read.lists.get("lost", ())):
        variable, expected = row.variable, row.expected
        elements = expectations.elements.get(variable)
        if elements is None:
            yield Fault(f"lost.{at}.variable", f"{expectations.spec.model} has no variable {variable!r}.")
        elif read.run.status == "ok" and expected != elements * expectations.spec.iterations:
            yield Fault(
                f"lost.{at}.expected",
                f"{expected} updates of elements were expected, but {expectations.spec.iterations} iterations of the "
                f"{elements} elements of {variable} are {elements * expectations.spec.iterations}.",
            )
