"""Rules on speeds: they must be possible on the machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Expectations
from tmflow.runfile.reader import ReadRun


def possible(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
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
