"""Check whether other processes keep the machine busy, before anything is measured."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

import psutil

from tmflow.runner import machine_load

WINDOW_S = 1.0  # long enough for the kernel's ticks, short enough to wait for
NAMED = 3  # processes
LEAST = 0.05  # the share of a processor from which a process is listed


class User(NamedTuple):
    """A process, and the share of one processor that it used."""

    pid: int
    name: str
    share: float


class Load(NamedTuple):
    """The load of the machine during a moment in which this process was idle."""

    processors: int
    load1: float | None
    others: float | None
    """Share of all CPU time that other processes used; None if the kernel does not report it."""
    steal: float | None
    busy: bool
    users: list[User]
    """The processes that used the most CPU time, among those visible to this user."""

    def __str__(self) -> str:
        parts = [f"load {self.load1:.1f} on {self.processors} processors" if self.load1 is not None else ""]
        parts.append(
            f"other processes use {100 * self.others:.0f} % of the CPU time" if self.others is not None else ""
        )
        parts.append(f"the hypervisor takes {100 * self.steal:.0f} %" if self.steal and self.steal >= 0.005 else "")
        used = ", ".join(
            f"{user.name} (process {user.pid}) {100 * user.share:.0f} % of a processor" for user in self.users
        )
        return ", ".join(filter(None, parts)) + (f": {used}" if used else "")


def look(window_s: float = WINDOW_S) -> Load:
    """Watch the machine for `window_s`, with the same limits as for a disturbed trial.

    If the kernel does not report who used the CPU time, a machine is busy if its load exceeds half its processors.
    """
    before, used = machine_load.sample(), _used()
    time.sleep(window_s)
    after, used_since = machine_load.sample(), _used()
    state = machine_load.between(before, after)
    processors = os.cpu_count() or 1
    load1, busy = state["load1_after"], state["disturbed"]
    if busy is None:
        busy = load1 is not None and load1 > processors / 2
    passed_s = after.at_s - before.at_s
    users = [
        User(pid, name, (seconds - used[pid, name]) / passed_s)
        for (pid, name), seconds in used_since.items()
        if (pid, name) in used and pid != os.getpid()
    ]
    most = sorted((user for user in users if user.share >= LEAST), key=lambda user: -user.share)[:NAMED]
    return Load(processors, load1, state["others_fraction"], state["steal_fraction"], busy, most)


def _used() -> dict[tuple[int, str], float]:
    """The CPU time that each process has used so far, by process id and name."""
    seconds = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None:
            seconds[process.pid, process.info["name"] or "?"] = times.user + times.system
    return seconds
