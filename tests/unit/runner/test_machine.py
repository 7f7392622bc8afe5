"""Load of the machine by other processes: recorded counters, and a real process that keeps a core busy."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load
from tmflow.runner.machine_load import CLOCK_LIMIT_S, MIN_WINDOW_S, Clocks, CpuTimes, Sample

STAT = """\
cpu  {user} 0 100 5000 10 0 5 {steal} 0 0
cpu0 0 0 50 2500 5 0 5 0 0 0
cpu1 0 0 50 2500 5 0 0 0 0 0
intr 12345 0 0
ctxt 99
"""


def taken(at_s: float, own_s: float = 0.0, user: int = 0, steal: int = 0) -> Sample:
    """A sample of a machine with two CPUs, from a recorded /proc/stat; user and steal in ticks."""
    clocks = Clocks(monotonic_s=at_s, boot_s=1000 + at_s, wall_s=1.7e9 + at_s)
    return Sample(clocks, own_s, 0.25, CpuTimes.parse(STAT.format(user=user, steal=steal)))


@pytest.fixture(autouse=True)
def ticks_of_10_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ticks of the recorded counters, and of nearly every Linux."""
    monkeypatch.setattr(machine_load, "TICKS_PER_S", 100)


def test_the_kernels_counters_are_read() -> None:
    times = CpuTimes.parse(STAT.format(user=300, steal=7))
    assert times == CpuTimes(cpus=2, busy_s=4.05, idle_s=50.1, steal_s=0.07)


@pytest.mark.parametrize("text", ["", "cpu  1 2 3", "nothing of the kind\n"])
def test_other_text_is_unreadable(text: str) -> None:
    assert CpuTimes.parse(text) is None


@pytest.mark.parametrize(
    ("after", "steal", "others", "disturbed"),
    [
        (taken(10, user=100, own_s=1.0), 0.0, 0.0, False),  # all used time is ours
        (taken(10, user=300, own_s=2.0), 0.0, 0.05, False),
        (taken(10, user=500, own_s=2.0), 0.0, 0.15, True),
        (taken(10, user=200, own_s=2.0, steal=30), 0.015, 0.0, False),
        (taken(10, user=200, own_s=2.0, steal=60), 0.03, 0.0, True),
        (taken(10, user=100, own_s=1.5), 0.0, 0.0, False),  # the clock of a process is finer than the ticks
    ],
)
def test_the_shares_of_a_recorded_window(after: Sample, steal: float, others: float, disturbed: bool) -> None:
    state = MachineState(**machine_load.between(taken(0), after))
    assert state.steal_fraction == pytest.approx(steal)
    assert state.others_fraction == pytest.approx(others)
    assert state.disturbed is disturbed
    assert (state.load1_before, state.load1_after) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (taken(0), taken(MIN_WINDOW_S - 0.01, user=40)),  # too short for ticks
        (taken(0), taken(10)),  # counters that do not advance
        (dataclasses.replace(taken(0), times=None), taken(10, user=100)),
    ],
)
def test_what_cannot_be_told_is_none(before: Sample, after: Sample) -> None:
    state = MachineState(**machine_load.between(before, after))
    assert (state.steal_fraction, state.others_fraction, state.disturbed) == (None, None, None)


@pytest.mark.parametrize("window_s", [0.2, 10.0])
@pytest.mark.parametrize(
    ("slept_s", "set_by_s", "disturbed"),
    [(3600.0, 0.0, True), (0.0, 30.0, True), (0.0, -30.0, True), (0.001, -0.001, False), (CLOCK_LIMIT_S * 2, 0, True)],
)
def test_a_trial_in_which_the_machine_slept_or_the_clock_was_set_is_flagged(
    window_s: float, slept_s: float, set_by_s: float, disturbed: bool
) -> None:
    calm = taken(window_s, user=int(100 * window_s), own_s=window_s)
    clocks = Clocks(window_s, 1000 + window_s + slept_s, 1.7e9 + window_s + slept_s + set_by_s)
    state = MachineState(**machine_load.between(taken(0), dataclasses.replace(calm, clocks=clocks)))
    assert state.suspended_s == pytest.approx(slept_s, abs=1e-6)
    assert state.clock_moved_s == pytest.approx(set_by_s, abs=1e-6)
    assert state.disturbed is (True if disturbed else None if window_s < MIN_WINDOW_S else False)


def test_short_trials_of_a_round_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight trials of 1/8 s, in which others take up to half of the machine, and an undisturbed one of 1/2 s."""
    at_s = [eighth / 8 for eighth in range(9)] + [1.5]
    busy = [0, 0, 0, 0, 5, 20, 35, 50, 60, 61]  # ticks; ours are none
    samples = [taken(now, user=ticks) for now, ticks in zip(at_s, busy, strict=True)]
    watch, states = machine_load.Watch(), []
    for before, after in itertools.pairwise(samples):
        monkeypatch.setattr(machine_load, "sample", lambda before=before: before)
        assert watch.begin() is before
        states.append(MachineState(**watch.since(before, after)))
    assert [state.disturbed for state in states] == [None] * 3 + [False] + [True] * 4 + [False]
    assert [state.others_fraction for state in states[3:]] == pytest.approx([0.05, 0.2, 0.35, 0.5, 0.55, 0.01])


def test_the_first_short_trial_is_judged_since_the_start_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process prepares for half a second, in which others use 30 % of the machine; its own work does not count."""
    started, before, after = taken(0), taken(0.5, own_s=0.4, user=70), taken(0.6, own_s=0.6, user=96)
    monkeypatch.setattr(machine_load, "sample", lambda: started)
    watch = machine_load.Watch()
    monkeypatch.setattr(machine_load, "sample", lambda: before)
    watch.begin()
    state = MachineState(**watch.since(before, after))
    assert (state.others_fraction, state.disturbed) == (pytest.approx(0.36 / 1.2), True)


def test_of_a_short_trial_load_and_clocks_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, before, after = taken(0), dataclasses.replace(taken(1), load1=2.0), taken(1.1, user=30)
    watch = machine_load.Watch()
    for sample in (begun, before):
        monkeypatch.setattr(machine_load, "sample", lambda sample=sample: sample)
        watch.begin()
    state = MachineState(**watch.since(before, after))
    assert (state.load1_before, state.suspended_s, state.disturbed) == (2.0, pytest.approx(0), True)
    assert state.others_fraction == pytest.approx(0.3 / 2.2)


def test_without_a_clock_that_counts_suspension_nothing_is_said_of_it() -> None:
    before, after = (
        dataclasses.replace(taken(at_s, user=user), clocks=Clocks(at_s, None, 5 * at_s))
        for at_s, user in ((0, 0), (1, 9))
    )
    state = MachineState(**machine_load.between(before, after))
    assert (state.suspended_s, state.clock_moved_s, state.disturbed) == (None, None, False)


def test_a_system_without_proc_is_unreadable(tmp_path: Path) -> None:
    assert machine_load.sample(tmp_path / "stat").times is None


# --- this machine ----------------------------------------------------------------------------------------------------

# All in processor time, because others may use this machine.
BUSY = "import time; print(flush=True)\nwhile time.process_time() < {seconds}: pass"


TICK_S = 1 / os.sysconf("SC_CLK_TCK")  # in which some kernels count


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_the_clocks_of_this_machine_agree() -> None:
    """Except for readings between which this process had to wait."""
    pairs = [machine_load.between(machine_load.sample(), machine_load.sample()) for _ in range(50)]
    states = [MachineState(**pair) for pair in pairs]
    assert all(state.suspended_s is not None for state in states)
    assert any((state.suspended_s or 0) < CLOCK_LIMIT_S > abs(state.clock_moved_s or 0) for state in states)


def test_our_own_work_is_ours() -> None:
    outer_s = time.process_time()
    before, inner_s = machine_load.sample(), time.process_time()
    burn(0.1)
    inner_s = time.process_time() - inner_s
    after, outer_s = machine_load.sample(), time.process_time() - outer_s
    assert inner_s >= 0.1
    assert inner_s - TICK_S <= after.own_s - before.own_s <= outer_s + TICK_S


def test_the_work_of_another_process_is_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_load, "TICKS_PER_S", os.sysconf("SC_CLK_TCK"))
    # Not a descendant: the shell that has started it ends at once.
    background = f"{shlex.join([sys.executable, '-c', BUSY.format(seconds=60)])} & echo $!"
    shell = subprocess.Popen(["sh", "-c", background], stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    lines = [shell.stdout.readline() for _ in range(2)]  # the second is empty: it is up and burning
    other = int("".join(lines))
    shell.wait()
    try:
        before, begun_s, deadline = machine_load.sample(), cpu_seconds(other), time.monotonic() + 60
        while cpu_seconds(other) - begun_s < 2 * MIN_WINDOW_S and time.monotonic() < deadline:
            burn(0.1)
        after, burnt_s = machine_load.sample(), cpu_seconds(other) - begun_s
    finally:
        os.kill(other, signal.SIGKILL)
        shell.stdout.close()
    state = MachineState(**machine_load.between(before, after))
    if after.times is None or state.others_fraction is None:
        pytest.skip("this system does not show the machine's CPU times")
    others_s = state.others_fraction * after.times.cpus * (after.at_s - before.at_s)
    # Other load of the machine is added; each CPU's count may be a tick short.
    assert burnt_s >= 2 * MIN_WINDOW_S
    assert others_s >= 0.9 * burnt_s - 0.01 * after.times.cpus


def test_a_child_of_a_child_that_still_runs_is_ours() -> None:
    """As the tasks of a cluster are."""
    command = shlex.join([sys.executable, "-c", BUSY.format(seconds=60)])
    shell = subprocess.Popen(["sh", "-c", f"{command} & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    child = int("".join(shell.stdout.readline() for _ in range(2)))
    try:
        before, deadline = machine_load.sample(), time.monotonic() + 60
        begun_s, mine_s = cpu_seconds(child), time.process_time()
        while cpu_seconds(child) - begun_s < 0.3 and time.monotonic() < deadline:
            burn(0.05)
        burnt_s, mine_s = cpu_seconds(child) - begun_s, time.process_time() - mine_s  # both go on until the sample
        ours_s = machine_load.sample().own_s - before.own_s
        assert burnt_s >= 0.3
        assert ours_s >= burnt_s + mine_s - TICK_S
    finally:
        os.kill(child, signal.SIGKILL)
        shell.communicate()


def test_a_child_that_has_ended_is_ours() -> None:
    command = [sys.executable, "-c", BUSY.format(seconds=0.3)]
    before = machine_load.sample()
    subprocess.run(command, check=True, capture_output=True)
    assert machine_load.sample().own_s - before.own_s > 0.1


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
