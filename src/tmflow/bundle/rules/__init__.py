"""The rules that every genuine run satisfies, one topic per module; each is a function of a run and its expectations.

A rule yields a Fault for each violation. Expectations that follow from the spec are computed once per spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules import aborts, clocks, counts, physical, provenance, results, speeds
from tmflow.bundle.rules.expectations import Expectations
from tmflow.runfile.reader import ReadRun

Rule = Callable[[ReadRun, Expectations], Iterator[Fault]]

RUN_RULES: tuple[Rule, ...] = (
    provenance.strategy,
    counts.attempts_end,
    counts.sections_are_updates,
    counts.updates_are_iterations,
    counts.steps_are_iterations,
    counts.workers_are_threads,
    counts.losses_are_of_updates,
    results.seed,
    results.curve,
    results.accuracy,
    clocks.starts,
    clocks.lasts,
    aborts.codes_say_families,
    speeds.possible,
    physical.times,
    physical.machine,
    physical.counts,
    physical.dates,
    physical.texts,
)
