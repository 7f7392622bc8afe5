"""Invented answers of the benchmark's workers, for tests of their evaluation."""

from __future__ import annotations

from typing import Any

from tmflow.benchmark.plan import Cell, Plan, Subject
from tmflow.benchmark.storage import LeftOut, Saved
from tmflow.benchmark.updates import Measured, Outcome, rows
from tmflow.runfile.record import MachineState, Software

SMALL, LARGE = Cell(10, 1), Cell(1000, 8)

MEMCPY = Subject("memcpy", "memcpy")
WRITING = Subject("gradient_writing", "gradient_writing")
LOOP = Subject("mutex_loop", "mutex_loop")
SPIN_LOOP = Subject("mutex_loop:mutex=spin", "mutex_loop", parameters={"mutex": "spin"})
LOCK = Subject("lock", "lock", consistency="tensor", parameters={"kernel": "plain"})
NOLOCK = Subject("nolock", "nolock", consistency="none")


def htm(budget: int, **parameters: int) -> Subject:
    return Subject(f"htm:budget={budget}", "htm", consistency="tensor", parameters={"budget": budget, **parameters})


def answer(us: float, updates: int = 100, elements: int = 10, **counts: Any) -> dict[str, Any]:
    """An answer in which an update took `us`; default counts are those of a clean run without transactions."""
    clean = {
        "lost": 0,
        "doubled": 0,
        "corrupt_elements": 0,
        "commits": 0,
        "fallbacks": 0,
        "aborts": {},
        "attempts_known": True,
    }
    expected = updates * elements
    return {"seconds": us * updates / 1e6, "updates": updates, "expected": expected, **clean, **counts}


def measured(*us: float | None, **counts: Any) -> Measured:
    return Measured(100, [None if one is None else answer(one, **counts) for one in us])


def plan(*subjects: Subject, cells: tuple[Cell, ...] = (SMALL,), rounds: int = 2, reference: str = "lock") -> Plan:
    return Plan(list(subjects), list(cells), rounds, seed=3, reference=reference, cpus=4)


def benchmark(its_plan: Plan, outcome: Outcome, left_out: tuple[LeftOut, ...] = ()) -> Saved:
    """The benchmark with these measurements, on a machine of which only the processor is known."""
    software = Software(
        tmflow="0.1.0",
        python="3.11.2",
        tensorflow=None,
        numpy=None,
        compiler="GNU 12.2.0",
        cflags="-O3",
        git_commit=None,
        git_dirty=None,
        lock_sha256=None,
    )
    state = MachineState(load1_before=0.1, load1_after=0.2, steal_fraction=0.0, others_fraction=0.0, disturbed=False)
    return Saved(
        measured_at_utc="2026-01-02T03:04:05.678Z",
        rounds=its_plan.rounds,
        seed=its_plan.seed,
        cpus_allowed=its_plan.cpus,
        platform={"cpu_model": "A Processor"},
        environment={},
        software=software,
        machine=state,
        rows=rows(its_plan, outcome),
        left_out=list(left_out),
    )
