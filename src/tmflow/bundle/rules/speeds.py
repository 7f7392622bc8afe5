"""Speeds that the machine can have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Known
from tmflow.runfile.reader import ReadRun


def possible(read: ReadRun, known: Known) -> Iterator[Fault]:
    """No worker made its updates faster than one thread that does nothing else and has the memory for itself."""
    run, rows = read.run, read.lists.get("counters", ())
    if not known.update_s or run.loop_s is None or run.time_domain != "wall" or not run.shows_time:
        return
    least_s: dict[int, float] = defaultdict(float)
    for row in rows:
        least_s[row.worker] += row.updates * known.update_s.get(row.variable, 0)
    if not rows:  # the strategy counts nothing, and the first worker has as many steps as any
        least_s[0] = -(-known.spec.iterations // known.spec.threads) * sum(known.update_s.values())
    if run.loop_s < (slowest := max(least_s.values())):
        yield Fault(
            "loop_s",
            f"{run.loop_s} s, but by its probe this machine cannot make the updates of one worker in less than "
            f"{slowest:.3g} s, nothing else done.",
        )
