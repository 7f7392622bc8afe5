"""Rules on times: of a single trial, and of the trials of a round, which run one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Expectations
from tmflow.runfile.reader import ReadRun
from tmflow.runfile.record import Run

AHEAD = timedelta(days=1)  # clocks without a network drift by hours, and some machines use local time
BACK = timedelta(minutes=1)  # the clock may be set back between the start of a campaign and its first trial
OVERLAP_S = 5.0  # the same within a round, for runs that do not record it


class Times(NamedTuple):
    """The time of a trial: all that is kept of a run until its round has been read."""

    line: int
    uid: str
    campaign: str
    round: int
    started: datetime
    total_s: float
    moved_s: float
    ordinal: int | None
    """Its position in the round; None if a later process ran it."""


def starts(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """A run starts after its campaign and not in the future."""
    run = read.run
    started, created = _time(run.started_at_utc), _time(run.campaign.created_at_utc)
    if created - started > BACK:
        yield Fault("started_at_utc", f"{run.started_at_utc} is before its campaign began, {created.isoformat()}.")
    if started - datetime.now(UTC) > AHEAD:
        yield Fault("started_at_utc", f"{run.started_at_utc} is in the future.")


def lasts(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """A trial takes at least as long as its parts together."""
    run = read.run
    if run.total_s is None or run.time_domain != "wall":
        return
    parts = (run.setup_s or 0) + (run.loop_s or 0) + (run.evaluation_s or 0)
    if parts > run.total_s * (1 + 1e-9):
        yield Fault("total_s", f"{run.total_s} s, but setup, loop and evaluation take {parts} s together.")


def times(line: int, run: Run) -> Times:
    """The times of a run for `contradictions`."""
    moved = abs((run.machine.clock_moved_s if run.machine else None) or 0)
    total_s = run.total_s if run.total_s is not None and run.time_domain == "wall" else 0
    ordinal = None if run.resumed else run.ordinal
    return Times(line, run.uid, run.campaign.uid, run.round, _time(run.started_at_utc), total_s, moved, ordinal)


def contradictions(trials: Sequence[Times]) -> Iterator[tuple[Times, Fault]]:
    """Find trials that began before the previous trial of the round ended, or out of the order of the round."""
    rounds: dict[tuple[str, int], list[Times]] = {}
    for trial in trials:
        rounds.setdefault((trial.campaign, trial.round), []).append(trial)
    for of_round in rounds.values():
        for before, after in pairwise(sorted(of_round, key=lambda trial: trial.started)):
            early_s = before.total_s - (after.started - before.started).total_seconds()
            if early_s > OVERLAP_S + before.moved_s + after.moved_s:
                text = f"it began {early_s:.1f} s before run {before.uid} of the same round had ended."
                yield after, Fault("started_at_utc", text)
        in_order = sorted((trial.ordinal, at) for at, trial in enumerate(of_round) if trial.ordinal is not None)
        for before, after in pairwise(of_round[at] for _, at in in_order):
            early_s = (before.started - after.started).total_seconds()
            if early_s > OVERLAP_S + before.moved_s + after.moved_s:
                other = f"run {before.uid}, whose ordinal is {before.ordinal}"
                yield after, Fault("ordinal", f"{after.ordinal}, but it began {early_s:.1f} s before {other}.")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
