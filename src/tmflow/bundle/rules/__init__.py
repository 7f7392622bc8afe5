"""The rules that every genuine run satisfies, one topic per module; each is a function of a run and its expectations.

A rule yields a Fault for each violation. Expectations that follow from the spec are computed once per spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules import clocks, physical, provenance, results
from tmflow.bundle.rules.expectations import Expectations
from tmflow.runfile.reader import ReadRun

Rule = Callable[[ReadRun, Expectations], Iterator[Fault]]

RUN_RULES: tuple[Rule, ...] = (
    provenance.strategy,
    results.attempts_end,
    results.sections_are_updates,
    results.updates_are_iterations,
    results.steps_are_iterations,
    results.workers_are_threads,
    results.processes_are_those_of_the_cluster,
    results.losses_are_of_updates,
    results.seed,
    results.curve,
    results.accuracy,
    clocks.starts,
    clocks.lasts,
    results.abort_codes_imply_families,
    physical.updates,
    physical.times,
    physical.machine,
    physical.counts,
    physical.dates,
    physical.texts,
)
