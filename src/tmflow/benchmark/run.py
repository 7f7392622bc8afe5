"""Runs a complete benchmark with the machine to itself, from the first worker to the facts of the machine."""

from __future__ import annotations

import sys

from tqdm import tqdm

from tmflow.base.clock import utc_now
from tmflow.base.locks import machine_to_itself
from tmflow.base.processes import Workers
from tmflow.benchmark.results import rows
from tmflow.benchmark.storage import Saved, make_saved
from tmflow.benchmark.updates import Bench, Outcome, Plan
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load


def run(plan: Plan) -> Saved:
    """Measure a plan. Raises BadInput before any timing if a requested subject cannot run here."""
    with machine_to_itself():
        began_at, before = utc_now(), machine_load.sample()
        outcome = _measured(plan)
        # The workers have ended, so their CPU time counts as our own.
        state = MachineState(**machine_load.between(before, machine_load.sample()))
    result = rows(plan, outcome)  # this may leave out more
    return make_saved(plan, outcome, result, state, began_at)


def _measured(plan: Plan) -> Outcome:
    with Workers() as workers, tqdm(disable=None, leave=False, file=sys.stderr, unit="turn") as bar:
        bench = Bench(plan, workers)
        outcome = bench.runnable()
        plan.require_reference(outcome.subjects)

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        bench.measure(outcome, progress)
    return outcome
