"""The load of the machine by other processes: during a trial, and before a study or a benchmark."""

from __future__ import annotations

import os
import resource
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

# A trial is disturbed if the hypervisor took, or other processes used, more than this share of the machine's CPU time.
# Steal stops a worker anywhere, even inside a critical section or a transaction, so even a little has an effect. Other
# processes first move to idle cores, and a desktop or the kernel's threads always use a few per cent.
STEAL_LIMIT = 0.02
OTHERS_LIMIT = 0.10

# The kernel counts in ticks of 10 ms, so each CPU's count is off by up to a tick: over 0.5 s that is 2 % of the
# machine, the smaller of the limits. A shorter window is meaningless.
MIN_WINDOW_S = 0.5

# Two clocks are read some microseconds apart, or more if the process has to wait between them. The limit is above that:
# it detects clocks that were set, and a machine that was suspended.
CLOCK_LIMIT_S = 0.1

# For a look at the current load: long enough for the kernel's ticks, short enough to wait for.
LOOK_S = 1.0
MAX_USERS = 3  # processes that are named
MIN_USER_SHARE = 0.05  # the share of a processor from which a process is named

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
        """Parse the text of /proc/stat; None if it has another format."""
        rows = [line.split() for line in text.splitlines() if line.startswith("cpu")]
        total = next((row for row in rows if row[0] == "cpu"), None)
        if total is None or len(total) < 9:
            return None
        user, nice, system, idle, iowait, irq, softirq, steal = (int(ticks) / TICKS_PER_S for ticks in total[1:9])
        # Columns 9 and 10, the time of guests, are already part of user and nice.
        return cls(len(rows) - 1, user + nice + system + irq + softirq, idle + iowait, steal)


@dataclass(frozen=True)
class Clocks:
    """Three clocks of the kernel: `monotonic_s` stops during suspension, `boot_s` does not, `wall_s` can be set.

    The first two are slewed equally and never jump. `boot_s` is None if the kernel has no such clock.
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
    """The counters at one moment. `own_s`: CPU time of this process and of all its descendants, ended or not.

    The tasks of a cluster are descendants that still run.
    """

    clocks: Clocks
    own_s: float
    load1: float | None
    times: CpuTimes | None

    @property
    def at_s(self) -> float:
        return self.clocks.monotonic_s


def sample(stat: Path = Path("/proc/stat")) -> Sample:
    """Take a sample, in about a millisecond; call it before and after a trial."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own_s = sum(usage.ru_utime + usage.ru_stime for usage in used) + _used_by_descendants()
    try:
        times = CpuTimes.parse(stat.read_text())
    except OSError:
        times = None
    try:
        load1 = os.getloadavg()[0]
    except OSError:
        load1 = None
    return Sample(Clocks.read(), own_s, load1, times)


def _used_by_descendants() -> float:
    """CPU time of the descendants that still run, with that of their children for which they have waited."""
    used_s = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            used_s += sum(process.cpu_times()[:4])  # user and system, its own and of its children
    return used_s


class Watch:
    """Samples of a process that runs trials in sequence, so that short trials share a longer window.

    A trial that is too short for the kernel's ticks uses a longer window that ends with it: the shortest sufficient
    window that starts with an earlier trial or a warm-up, or when the watch was made. The window includes this
    process's work between trials, which does not count as work of others.
    """

    def __init__(self) -> None:
        self._starts: deque[Sample] = deque([sample()])

    def begin(self) -> Sample:
        """Take a sample at the start of a trial or a warm-up."""
        now = sample()
        self._starts.append(now)
        while len(self._starts) > 1 and now.at_s - self._starts[1].at_s >= MIN_WINDOW_S:
            self._starts.popleft()
        return now

    def since(self, before: Sample, after: Sample) -> dict[str, Any]:
        """`between` for the samples of a trial, with shares over a longer window if the trial is too short."""
        long_enough = (start for start in reversed(self._starts) if after.at_s - start.at_s >= MIN_WINDOW_S)
        return between(before, after, next(long_enough, before))


def between(before: Sample, after: Sample, shares_since: Sample | None = None) -> dict[str, Any]:
    """The activity of other processes between two samples: the fields of a `runfile.MachineState`.

    The shares, and with them `disturbed`, are None if the counters are unreadable or constant (a sandbox shows zeros),
    or if the window is shorter than MIN_WINDOW_S. A short window is extended back to `shares_since`, if given.
    Suspension, or a clock that was set, disturbs a window of any length.
    """
    too_short = after.at_s - before.at_s < MIN_WINDOW_S
    steal, others = _shares(shares_since if shares_since is not None and too_short else before, after)
    suspended_s = clock_moved_s = None
    if before.clocks.boot_s is not None and after.clocks.boot_s is not None:
        passed_s = after.clocks.boot_s - before.clocks.boot_s
        suspended_s = max(passed_s - (after.at_s - before.at_s), 0.0)
        clock_moved_s = after.clocks.wall_s - before.clocks.wall_s - passed_s  # above 0: set forward
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


def _shares(before: Sample, after: Sample) -> tuple[float | None, float | None]:
    """Shares of cores * wall time stolen and used by others, clipped to [0, 1]: ticks and clock differ slightly."""
    window_s = after.at_s - before.at_s
    if before.times is None or after.times is None or window_s < MIN_WINDOW_S:
        return None, None
    busy_s = after.times.busy_s - before.times.busy_s
    steal_s = after.times.steal_s - before.times.steal_s
    if busy_s + steal_s + after.times.idle_s - before.times.idle_s <= 0:
        return None, None
    capacity_s = after.times.cpus * window_s
    others_s = busy_s - (after.own_s - before.own_s)
    return min(max(steal_s / capacity_s, 0.0), 1.0), min(max(others_s / capacity_s, 0.0), 1.0)


class User(NamedTuple):
    """A process, and the share of one processor that it used."""

    pid: int
    name: str
    share: float


class Load(NamedTuple):
    """The load of the machine during a short time in which this process was idle."""

    processors: int
    load1: float | None
    others: float | None  # share of all CPU time that other processes used; None if the kernel does not report it
    steal: float | None
    busy: bool
    users: list[User]  # the processes that used the most CPU time, among those visible to this user

    def __str__(self) -> str:
        parts = []
        if self.load1 is not None:
            parts.append(f"load {self.load1:.1f} on {self.processors} processors")
        if self.others is not None:
            parts.append(f"other processes use {100 * self.others:.0f} % of the CPU time")
        if self.steal is not None and self.steal >= 0.005:
            parts.append(f"the hypervisor takes {100 * self.steal:.0f} %")
        users = [f"{user.name} (process {user.pid}) {100 * user.share:.0f} % of a processor" for user in self.users]
        return ", ".join(parts) + (f": {', '.join(users)}" if users else "")


def look(window_s: float = LOOK_S) -> Load:
    """Watch the machine for `window_s`, with the same limits as for a disturbed trial.

    If the kernel does not report who used the CPU time, a machine is busy if its load exceeds half its processors.
    """
    before, used_before = sample(), _used()
    time.sleep(window_s)
    after, used = sample(), _used()
    state = between(before, after)
    processors = os.cpu_count() or 1
    load1, busy = state["load1_after"], state["disturbed"]
    if busy is None:
        busy = load1 is not None and load1 > processors / 2
    passed_s = after.at_s - before.at_s
    shares = {
        (pid, name): (used[pid, name] - used_before[pid, name]) / passed_s
        for pid, name in used
        if (pid, name) in used_before and pid != os.getpid()
    }
    most = sorted(shares.items(), key=lambda item: -item[1])[:MAX_USERS]
    users = [User(pid, name, share) for (pid, name), share in most if share >= MIN_USER_SHARE]
    return Load(processors, load1, state["others_fraction"], state["steal_fraction"], busy, users)


def _used() -> dict[tuple[int, str], float]:
    """The CPU time that each process has used so far, by process id and name."""
    return {
        (process.pid, process.info["name"] or "?"): times.user + times.system
        for process in psutil.process_iter(["name", "cpu_times"])
        if (times := process.info["cpu_times"]) is not None
    }
