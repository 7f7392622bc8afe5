"""What a trial came to: its seed, its curve, its accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Known
from tmflow.runfile.reader import ReadRun

_AS_WHOLE = 1e-6  # so near to a whole number is a count of images


def seed(read: ReadRun, known: Known) -> Iterator[Fault]:
    """Round r has the r-th seed."""
    run = read.run
    expected = known.spec.seed + run.round - 1
    if run.trial_seed != expected:
        yield Fault("trial_seed", f"{run.trial_seed} in round {run.round}, but {known.spec.seed} + {run.round} - 1.")


def curve(read: ReadRun, known: Known) -> Iterator[Fault]:
    """The pauses come one after another, as many as asked for, and not after the end."""
    points = read.lists.get("curve")
    if points is None:
        return
    if len(points) > known.spec.curve_points:
        yield Fault("curve", f"it has {len(points)} points, but curve_points is {known.spec.curve_points}.")
    for at, (before, after) in enumerate(pairwise(points), start=1):
        if after.iteration <= before.iteration or after.elapsed_s <= before.elapsed_s:
            yield Fault(f"curve.{at}", "its iteration or its time is not beyond that of the point before it.")
    last = points[-1]
    if last.iteration > known.spec.iterations:
        yield Fault("curve", f"its last point is at iteration {last.iteration} of {known.spec.iterations}.")
    if read.run.loop_s is not None and last.elapsed_s > read.run.loop_s:
        yield Fault("curve", f"its last point is at {last.elapsed_s} s, but loop_s is {read.run.loop_s}.")


def accuracy(read: ReadRun, known: Known) -> Iterator[Fault]:
    """An accuracy is a number of the test images."""
    shares = [("final_accuracy", read.run.final_accuracy)]
    shares += [(f"curve.{at}.accuracy", point.accuracy) for at, point in enumerate(read.lists.get("curve", ()))]
    for field, share in shares:
        if share is not None and abs(share * known.tested - round(share * known.tested)) > _AS_WHOLE:
            yield Fault(field, f"{share} is not a whole number of the {known.tested} test images.")
