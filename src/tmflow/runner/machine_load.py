"""What else the machine did during a trial: two samples of the kernel's counters, and what lies between them."""

from __future__ import annotations

import os
import resource
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A trial is disturbed if the hypervisor took, or other processes used, more than this of the machine's CPU time.
# Steal stops a worker wherever it is, mutex or transaction in hand, so little of it already shows; other processes
# are first moved to idle cores, and a desktop or the kernel's own threads use a few per cent anyway.
STEAL_LIMIT = 0.02
OTHERS_LIMIT = 0.10

# The kernel counts in ticks of 10 ms, so each CPU's count is off by up to a tick: over 0.5 s that is 2 % of the
# machine, the smaller of the limits. A shorter window says nothing.
MIN_WINDOW_S = 0.5

# Readings of two clocks are some microseconds apart, or as much as the process is kept waiting between them. What is
# flagged is more than that: clocks that were set, a machine that slept.
CLOCK_LIMIT_S = 0.1

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTimes:
    """/proc/stat: CPU time since boot, summed over the CPUs."""

    cpus: int
    busy_s: float
    idle_s: float
    steal_s: float

    @classmethod
    def parse(cls, text: str) -> CpuTimes | None:
        """None if the text is not that of /proc/stat."""
        rows = [line.split() for line in text.splitlines() if line.startswith("cpu")]
        total = next((row for row in rows if row[0] == "cpu"), None)
        if total is None or len(total) < 9:
            return None
        user, nice, system, idle, iowait, irq, softirq, steal = (int(ticks) / TICKS_PER_S for ticks in total[1:9])
        # Columns 9 and 10, the time of guests, are part of user and nice already.
        return cls(len(rows) - 1, user + nice + system + irq + softirq, idle + iowait, steal)


@dataclass(frozen=True)
class Clocks:
    """Three clocks of the kernel: `monotonic_s` stands still in suspension, `boot_s` does not, `wall_s` can be set.

    The first two are adjusted alike to run at the right speed, and never jump; None where there is no such clock.
    """

    monotonic_s: float
    boot_s: float | None
    wall_s: float

    @classmethod
    def read(cls) -> Clocks:
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        boot_s = None if boot is None else time.clock_gettime(boot)
        return cls(time.monotonic(), boot_s, time.time())


@dataclass(frozen=True)
class Sample:
    """The counters at one moment. `own_s`: CPU time of this process and of its children that it has waited for."""

    clocks: Clocks
    own_s: float
    load1: float | None
    times: CpuTimes | None

    @property
    def at_s(self) -> float:
        return self.clocks.monotonic_s


def sample(stat: Path = Path("/proc/stat")) -> Sample:
    """Take a sample, in well under a millisecond; call it before and after a trial."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own_s = sum(usage.ru_utime + usage.ru_stime for usage in used)
    try:
        times = CpuTimes.parse(stat.read_text())
    except OSError:
        times = None
    try:
        load1 = os.getloadavg()[0]
    except OSError:
        load1 = None
    return Sample(Clocks.read(), own_s, load1, times)


class Watch:
    """Samples of a process that runs one trial after another, so that short trials are judged together.

    A trial that is too short for the kernel's ticks is judged by a longer window that ends with it: the shortest that
    is long enough and begins where an earlier trial, or a warm-up, began. What the process itself does between two
    trials is in that window, and does not count among the others.
    """

    def __init__(self) -> None:
        self._begun: deque[Sample] = deque()

    def begin(self) -> Sample:
        """Take a sample where something begins: a trial, or what precedes the trials."""
        now = sample()
        self._begun.append(now)
        while len(self._begun) > 1 and now.at_s - self._begun[1].at_s >= MIN_WINDOW_S:
            self._begun.popleft()
        return now

    def since(self, before: Sample, after: Sample) -> dict[str, Any]:
        """`between` the samples of a trial, whose shares are of a longer window if the trial is too short."""
        long_enough = (begun for begun in reversed(self._begun) if after.at_s - begun.at_s >= MIN_WINDOW_S)
        return between(before, after, next(long_enough, before))


def between(before: Sample, after: Sample, shares_since: Sample | None = None) -> dict[str, Any]:
    """What the rest of the machine did from one sample to the other: the fields of a `runfile.MachineState`.

    The shares, and with them `disturbed`, are None where the counters are unreadable or stand still (a sandbox that
    shows zeros), and where the window is shorter than MIN_WINDOW_S: then it may begin at `shares_since`, earlier than
    `before`. A child that still runs counts among the others. Suspension, or a clock that was set, disturbs a window of
    any length.
    """
    too_short = after.at_s - before.at_s < MIN_WINDOW_S
    steal, others = _shares(shares_since if shares_since is not None and too_short else before, after)
    suspended_s, clock_moved_s = _clocks(before.clocks, after.clocks)
    disturbed = None if steal is None or others is None else steal > STEAL_LIMIT or others > OTHERS_LIMIT
    if any(moved is not None and abs(moved) > CLOCK_LIMIT_S for moved in (suspended_s, clock_moved_s)):
        disturbed = True
    return {
        "load1_before": before.load1,
        "load1_after": after.load1,
        "steal_fraction": steal,
        "others_fraction": others,
        "suspended_s": suspended_s,
        "clock_moved_s": clock_moved_s,
        "disturbed": disturbed,
    }


def _clocks(before: Clocks, after: Clocks) -> tuple[float | None, float | None]:
    """Seconds that the machine was suspended, and by which the time of day was set: forward if above 0."""
    if before.boot_s is None or after.boot_s is None:
        return None, None
    passed_s = after.boot_s - before.boot_s
    suspended_s = max(passed_s - (after.monotonic_s - before.monotonic_s), 0.0)
    return suspended_s, after.wall_s - before.wall_s - passed_s


def _shares(before: Sample, after: Sample) -> tuple[float | None, float | None]:
    """Stolen and used by others: shares of cores * wall, cut to [0, 1] because ticks and clock do not agree exactly."""
    window_s = after.at_s - before.at_s
    if before.times is None or after.times is None or window_s < MIN_WINDOW_S:
        return None, None
    busy_s, steal_s = after.times.busy_s - before.times.busy_s, after.times.steal_s - before.times.steal_s
    idle_s = after.times.idle_s - before.times.idle_s
    if busy_s + steal_s + idle_s <= 0:
        return None, None
    capacity_s = after.times.cpus * window_s
    others_s = busy_s - (after.own_s - before.own_s)
    return min(max(steal_s / capacity_s, 0.0), 1.0), min(max(others_s / capacity_s, 0.0), 1.0)
