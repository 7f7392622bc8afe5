"""Rules on the results of a trial: seed, curve, accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Expectations
from tmflow.runfile.reader import ReadRun

_AS_WHOLE = 1e-6  # tolerance for a count of images to be an integer


def seed(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """Round r has the r-th seed."""
    run = read.run
    expected = expectations.spec.seed + run.round - 1
    if run.trial_seed != expected:
        yield Fault(
            "trial_seed", f"{run.trial_seed} in round {run.round}, but {expectations.spec.seed} + {run.round} - 1."
        )


def curve(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """The points of a curve are ordered, no more than requested, and not after the end."""
    points = read.lists.get("curve")
    if points is None:
        return
    if len(points) > expectations.spec.curve_points:
        yield Fault("curve", f"it has {len(points)} points, but curve_points is {expectations.spec.curve_points}.")
    for at, (before, after) in enumerate(pairwise(points), start=1):
        if after.iteration <= before.iteration or after.elapsed_s <= before.elapsed_s:
            yield Fault(f"curve.{at}", "its iteration or its time is not beyond that of the point before it.")
    last = points[-1]
    if last.iteration > expectations.spec.iterations:
        yield Fault("curve", f"its last point is at iteration {last.iteration} of {expectations.spec.iterations}.")
    if read.run.loop_s is not None and last.elapsed_s > read.run.loop_s:
        yield Fault("curve", f"its last point is at {last.elapsed_s} s, but loop_s is {read.run.loop_s}.")


def accuracy(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """An accuracy is an integral number of the test images."""
    shares = [("final_accuracy", read.run.final_accuracy)]
    shares += [(f"curve.{at}.accuracy", point.accuracy) for at, point in enumerate(read.lists.get("curve", ()))]
    for field, share in shares:
        if share is not None and abs(share * expectations.tested - round(share * expectations.tested)) > _AS_WHOLE:
            yield Fault(field, f"{share} is not a whole number of the {expectations.tested} test images.")
