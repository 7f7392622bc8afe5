"""A process of a round: a warm-up of each variant and batch, then every point once.

`python -m tmflow.alone.process JOB` is started by `rounds`. Of JOB, which is JSON, `points` are the points in order.
Each line that it prints is JSON: {"begun": [points], "warm_up": ...}, or what became of a point under "done".
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from typing import Any, TextIO

from tmflow import datasets
from tmflow.alone.plan import Point, Spec, study
from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput, Diverged, Unsupported
from tmflow.datasets.dataset import Dataset
from tmflow.native import availability
from tmflow.native.possible import not_so
from tmflow.runner import machine_load
from tmflow.spec.strategies import parameters_of
from tmflow.training.measurement import TrialData, for_warm_up
from tmflow.training.native_trial import WARM_UP_IMAGES, WARM_UP_STEPS, measure


class Process:
    """The points of one process of a round."""

    def __init__(self, points: list[Point], number: int, told: TextIO) -> None:
        self._points = points
        self._number = number
        self._told = told
        self._why_not = {point.sha256: _why_not(point) for point in points}
        self._watch = machine_load.Watch()

    def run(self) -> None:
        for alike in self._alike():
            self._warm_up(alike)
        for point in self._points:
            self._tell({"begun": [point.sha256], "warm_up": False})
            self._tell({"done": point.sha256, **self._trial(point)})

    def _alike(self) -> Iterator[list[Point]]:
        """The points that can run here, by variant and batch: each needs a warm-up."""
        runnable = [point for point in self._points if not self._why_not[point.sha256]]
        for key in dict.fromkeys((point.variant, point.spec.batch) for point in runnable):
            yield [point for point in runnable if (point.variant, point.spec.batch) == key]

    def _warm_up(self, alike: list[Point]) -> None:
        """With as many workers as any of them has. What goes wrong, the trials meet again and record."""
        first, workers = alike[0], max(point.spec.threads for point in alike)
        hardest = [point.sha256 for point in alike if point.spec.threads == workers]
        self._tell({"begun": hardest, "warm_up": True})
        self._watch.begin()
        changes = for_warm_up(first.spec, workers, first.spec.batch, WARM_UP_STEPS, WARM_UP_IMAGES)
        try:
            measure(_changed(first, changes), first.asked, first.spec.seed, self._data(first))
        except Diverged:
            return
        except Exception:
            traceback.print_exc()

    def _trial(self, point: Point) -> dict[str, Any]:
        if reason := self._why_not[point.sha256]:
            return {"status": "unsupported", "reason": reason, "started_at_utc": utc_now()}
        before, started_at = self._watch.begin(), utc_now()
        try:
            measured = measure(point.spec, point.asked, self._seed(point), self._data(point))
            if reason := _why_not(point):  # this process is, after it, not as the strategy needs it
                return {"status": "unsupported", "reason": reason, "started_at_utc": started_at}
        except Exception as error:  # a failed trial is a result; the round goes on
            traceback.print_exc()
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
            state = self._watch.since(before, machine_load.sample())
            return {"status": "failed", "reason": reason, "machine": state, "started_at_utc": started_at}
        after = machine_load.sample()
        told = {"machine": self._watch.since(before, after), "total_s": after.at_s - before.at_s, **vars(measured)}
        return {"status": "ok", "started_at_utc": started_at, **told}

    def _seed(self, point: Point) -> int:
        return int(point.spec.seed) + self._number - 1

    def _data(self, point: Point) -> TrialData:
        return _trial_data(point.spec.matrix, self._seed(point))

    def _tell(self, line: dict[str, Any]) -> None:
        print(json.dumps(line), file=self._told, flush=True)


def _changed(point: Point, changes: dict[str, Any]) -> Any:
    return Spec(**{**vars(point.spec), **changes})


def _why_not(point: Point) -> str | None:
    """Why a point cannot run in this process; None if it can, or if asking goes wrong, which its trial will meet."""
    strategy, given = point.spec.strategy, point.spec.parameters()
    values = {**parameters_of(strategy, given.get("spending")), **given}
    try:
        return not_so(point.spec) or availability.why_not_with(strategy, values, point.asked.parameters)
    except (BadInput, Unsupported, ValueError):
        return None


@cache
def _dataset() -> Dataset:
    return datasets.load("mnist")


@cache
def _trial_data(matrix: int, seed: int) -> TrialData:
    return TrialData.make(_dataset(), matrix, seed)


def main(job: dict[str, Any]) -> None:
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between the lines
    (experiment,) = study().at(job["scale"], [job["experiment"]])
    points = {point.sha256: point for point in experiment.points}
    Process([points[sha256] for sha256 in job["points"]], job["number"], told).run()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever listened was killed, and began the round for nothing
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a trial may be one call of native code that takes hours
    try:
        main(json.loads(sys.argv[1]))
    except BadInput as error:
        print(f"tmflow-native: {error}", file=sys.stderr)
        sys.exit(2)
