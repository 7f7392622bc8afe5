"""What must hold in a run that really happened: one topic a file, each rule a function of a run and what is known.

A rule yields a Fault for whatever contradicts it. What a rule needs of the spec alone is worked out once a spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules import aborts, clocks, counts, physical, provenance, results, speeds
from tmflow.bundle.rules.expectations import Known
from tmflow.runfile.reader import ReadRun

Rule = Callable[[ReadRun, Known], Iterator[Fault]]

OF_A_RUN: tuple[Rule, ...] = (
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
