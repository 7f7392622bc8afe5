"""Rules on what a trial reports: its counts add up, abort codes are known, and curve and accuracy are possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from tmflow.base.text import several
from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import EMULATED, Expectations
from tmflow.runfile.reader import ReadRun
from tmflow.spec import abort_codes

_OF_WORKERS = (
    "counters", "aborts", "staleness", "retries", "failed_publications", "taken_blocks", "reads", "phases"
)  # fmt: skip
_LONGEST_CODE = len("0x") + 16
_AS_WHOLE = 1e-6  # tolerance for a count of images to be an integer


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


def abort_codes_imply_families(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """The mechanism is that of the strategy, the code is well-formed, and it implies the family."""
    expected, backend = expectations.mechanism, read.run.backend
    if expected == EMULATED and backend is not None:
        expected = backend.config.get("provider")
    for at, row in enumerate(read.lists.get("aborts", ())):
        mechanism, raw_code = row.mechanism, row.raw_code
        if expected is not None and mechanism != expected:
            text = f"{mechanism!r}, but this run has transactions of {expected!r}."
            yield Fault(f"aborts.{at}.mechanism", text)
        elif mechanism not in abort_codes.FAMILIES:
            yield Fault(f"aborts.{at}.mechanism", f"{mechanism!r} is not known: {', '.join(abort_codes.FAMILIES)}.")
        elif len(raw_code) > _LONGEST_CODE:
            yield Fault(f"aborts.{at}.raw_code", f"{raw_code[:_LONGEST_CODE]!r}... has more than 64 bits.")
        elif wrong := _contradiction(mechanism, raw_code, row.family):
            yield Fault(f"aborts.{at}", wrong)


@lru_cache(1000)
def _contradiction(mechanism: str, code: str, family: str) -> str | None:
    try:
        description = abort_codes.classify(mechanism, int(code, 16))
    except ValueError:
        return f"raw_code {code!r} is not a hexadecimal number."
    if description != {"raw_code": code, "family": family}:
        return f"{mechanism} {code}, {family}: the code says {description['raw_code']}, {description['family']}."
    return None


def sections_are_updates(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Commits plus fallbacks equal updates, or their chunks; strategies without transactions have neither."""
    strategy = expectations.spec.strategy
    is_known, n_sections = expectations.sections is not None, expectations.sections or {}
    for at, row in enumerate(read.lists.get("counters", ())):
        commits, fallbacks = row.commits, row.fallbacks
        if expectations.mechanism is None:
            if (row.attempts, commits, fallbacks) != (None, None, None):
                yield Fault(f"counters.{at}", f"{strategy} tries no transactions, but some are counted.")
        elif commits is not None and fallbacks is not None:
            sections, n = commits + fallbacks, row.updates * n_sections.get(row.variable, 1)
            if not (sections == n if is_known else sections >= n):
                text = (
                    f"{row.updates} updates of {row.variable} are {n}{'' if is_known else ' or more'} critical "
                    f"sections, but commits and fallbacks are {sections}."
                )
                yield Fault(f"counters.{at}", text)
    if expectations.mechanism is None and "aborts" in read.lists:
        yield Fault("aborts", f"{strategy} tries no transactions, but some aborted.")


def updates_are_iterations(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Each step of a successful trial updates each variable of the model once; in mode sync, all workers' together."""
    updates = dict.fromkeys(expectations.elements, 0)
    rows = read.lists.get("counters", ())
    for at, row in enumerate(rows):
        if row.variable not in updates:
            text = f"{expectations.spec.model} has no variable {row.variable!r}: {', '.join(updates)}."
            yield Fault(f"counters.{at}.variable", text)
        else:
            updates[row.variable] += row.updates
    if read.run.status != "ok" or not rows:
        return
    for variable, n in updates.items():
        if n != expectations.updates:
            yield Fault("counters", f"{n} updates of {variable} in all, but the trial makes {expectations.updates}.")


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


def processes_are_those_of_the_cluster(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """A run of driver cluster has its servers and workers, all of them if it is successful; no other run has any."""
    spec, processes = expectations.spec, read.lists.get("processes", ())
    if spec.driver != "cluster":
        for name in ("processes", "phases"):
            if name in read.lists:
                yield Fault(name, f"driver {spec.driver} runs no cluster, but there are {name}.")
        return
    for role, factor, most in (("server", "servers", spec.servers or 0), ("worker", "threads", spec.threads)):
        indices = [row.index for row in processes if row.role == role]
        if indices and max(indices) >= most:
            text = f"there is a {role} {max(indices)}, but {factor} is {most}, and the first {role} is 0."
            yield Fault("processes", text)
        elif read.run.status == "ok" and len(indices) != most:
            yield Fault("processes", f"{several(len(indices), role)} of a successful run, but {factor} is {most}.")


def losses_are_of_updates(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """The expected updates are one for each update and each element that it changes; elements are the variable's."""
    for at, row in enumerate(read.lists.get("lost", ())):
        variable, expected = row.variable, row.expected
        changed, updates = expectations.changed.get(variable), expectations.updates
        if changed is None:
            yield Fault(f"lost.{at}.variable", f"{expectations.spec.model} has no variable {variable!r}.")
            continue
        fewest, most = changed
        if read.run.status == "ok" and not fewest * updates <= expected <= most * updates:
            of_each = f"the {fewest}" if fewest == most else f"{fewest} to {most}"
            in_all = " to ".join(str(n * updates) for n in dict.fromkeys(changed))
            yield Fault(
                f"lost.{at}.expected",
                f"{expected} updates of elements were expected, but {updates} updates of {of_each} elements "
                f"of {variable} are {in_all}.",
            )
        elements = None if expectations.spec.optimiser == "sgd" else expectations.elements.get(variable)
        if row.elements != elements:
            yield Fault(
                f"lost.{at}.elements",
                f"{row.elements} elements, but under optimiser {expectations.spec.optimiser} {variable} has "
                f"{'no arrays beside it' if elements is None else elements}.",
            )


def seed(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Round r has the r-th seed."""
    run = read.run
    expected = expectations.spec.seed + run.round - 1
    if run.trial_seed != expected:
        yield Fault(
            "trial_seed", f"{run.trial_seed} in round {run.round}, but {expectations.spec.seed} + {run.round} - 1."
        )


def curve(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """The points of a curve are in order, at most as many as requested, and not after the end."""
    points = read.lists.get("curve")
    if points is None:
        return
    if len(points) > expectations.spec.curve_points:
        yield Fault("curve", f"it has {len(points)} points, but curve_points is {expectations.spec.curve_points}.")
    for at, (before, after) in enumerate(pairwise(points), start=1):
        if after.iteration <= before.iteration or after.elapsed_s <= before.elapsed_s:
            yield Fault(f"curve.{at}", "its iteration or its time is not beyond that of the point before it.")
    last = points[-1]
    if last.iteration > expectations.spec.iterations:
        yield Fault("curve", f"its last point is at iteration {last.iteration} of {expectations.spec.iterations}.")
    if read.run.loop_s is not None and last.elapsed_s > read.run.loop_s:
        yield Fault("curve", f"its last point is at {last.elapsed_s} s, but loop_s is {read.run.loop_s}.")


def accuracy(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """An accuracy is a whole number of test images, divided by their total."""
    shares = [("final_accuracy", read.run.final_accuracy)]
    shares += [(f"curve.{at}.accuracy", point.accuracy) for at, point in enumerate(read.lists.get("curve", ()))]
    for field, share in shares:
        if share is not None and abs(share * expectations.tested - round(share * expectations.tested)) > _AS_WHOLE:
            yield Fault(field, f"{share} is not a whole number of the {expectations.tested} test images.")
