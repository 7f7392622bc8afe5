"""The expectations that follow from a spec and a machine; all their runs share them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tmflow.native.registry import consistency_by_strategy
from tmflow.probe.document import Probe
from tmflow.spec.factors import SYNTHETIC
from tmflow.spec.models import MODELS
from tmflow.spec.shapes import parse_shapes, variable_name
from tmflow.spec.strategies import mechanism_of
from tmflow.spec.trial import TrialSpec
from tmflow.training import synthetic
from tmflow.training.data import has_values
from tmflow.training.models import load_network
from tmflow.training.network import JOINED

DIGITS_TO_TEST = 300  # all test images of digits
EMULATED = "emulated"


# A run may exceed the probed speed by these factors, because of less interference, or because its kernel does not touch
# all of what the probed one reads and writes.
FACTOR, FACTOR_TOUCHING_LESS = 2, 4
TOUCHING_LESS = ("fused", "skip_zero")
_LONGEST = 700.0  # the exponential of larger numbers overflows


class Limits:
    """The speed limit of a machine: that of one thread that updates private memory. No training can beat it.

    points: nanoseconds of an update by number of elements, interpolated linearly on log-log scales.
    """

    def __init__(self, points: Mapping[int, float]) -> None:
        ordered = sorted(points.items())
        self._elements = [math.log(elements) for elements, _ in ordered]
        self._ns = [math.log(ns) for _, ns in ordered]

    def update_s(self, elements: int, kernel: str | None) -> float:
        """The shortest possible time of an update of this number of elements, in seconds."""
        at = math.log(elements)
        within = min(max(at, self._elements[0]), self._elements[-1])
        logarithm = float(np.interp(within, self._elements, self._ns)) + at - within  # beyond the points: proportional
        return math.exp(min(logarithm, _LONGEST)) * 1e-9 / (FACTOR_TOUCHING_LESS if kernel in TOUCHING_LESS else FACTOR)


def limits_of(probe: Probe) -> Limits | None:
    """The limits that a probe measured; None if it measured none."""
    points = {point.elements: point.ns for point in probe.limits.update_ns or ()}
    return Limits(points) if points else None


@dataclass(frozen=True)
class Expectations:
    """The expectations of a run.

    family_sha256: the hash shared by specs that differ only in threads. updates: of each variable, in a successful
    trial. elements: by variable. changed: the fewest and the most elements that an update changes, by variable.
    sections: critical sections per update, by variable; None if unknown. tested: number of test images. mechanism: the
    kind of transactions, None without transactions, `EMULATED` if the run names the machine. update_s: the shortest
    possible time of an update, by variable; empty if unknown.
    """

    spec: TrialSpec
    spec_sha256: str
    family_sha256: str
    strategy_exists: bool
    updates: int
    elements: Mapping[str, int]
    changed: Mapping[str, tuple[int, int]]
    sections: Mapping[str, int] | None
    tested: int
    mechanism: str | None
    update_s: Mapping[str, float]


def expect(spec: TrialSpec, limits: Limits | None) -> Expectations:
    """Compute the expectations from a spec and from the limits of the machine, if it was probed."""
    variables = load_network(spec.model).variables(spec)
    elements = {variable.name: math.prod(variable.shape) for variable in variables}
    if spec.layout == JOINED:
        elements = {JOINED: sum(elements.values())}
    sections = {name: -(-n // spec.chunk) if spec.chunk else 1 for name, n in elements.items()}
    in_any_chunks = spec.chunk and MODELS[spec.model].by_rows
    has_sections = spec.kernel != "fused" and not in_any_chunks
    changed = {name: _changed(spec, n) for name, n in elements.items()}
    if spec.driver == "arrays" and spec.shapes is not None:  # they have the rows of every step
        changed = {
            variable_name(number): (shape.updated, shape.updated)
            for number, shape in enumerate(parse_shapes(spec.shapes), start=1)
        }
    updates = spec.iterations // spec.threads if spec.mode == "sync" else spec.iterations
    makes_updates = spec.passes != "forward"
    return Expectations(
        spec=spec,
        spec_sha256=spec.sha256,
        family_sha256=spec.model_copy(update={"threads": 1}).sha256,
        strategy_exists=spec.strategy in consistency_by_strategy(),
        updates=updates if makes_updates else 0,
        elements=elements,
        changed=changed,
        sections=sections if has_sections else None,
        tested=min(spec.test_images, _to_test(spec)),
        mechanism=mechanism_of(spec.strategy, spec.parameters()),
        update_s={name: limits.update_s(fewest, spec.kernel) for name, (fewest, _) in changed.items()}
        if limits and makes_updates
        else {},
    )


def _changed(spec: TrialSpec, elements: int) -> tuple[int, int]:
    """The fewest and the most elements that an update changes of a variable with this number of elements.

    An update of rows changes those of at least one example, because the examples of a batch may have the same. An
    example with values may have fewer rows than others, or none.
    """
    if spec.driver == "keras":  # the shapes have the rows of the first batch, and others may have other ones
        return 1, elements
    if not MODELS[spec.model].by_rows:
        return elements, elements
    assert spec.width is not None, "a spec of this model has it"
    of_example = load_network(spec.model).pixels(spec) * spec.width
    return 0 if has_values(spec) else of_example, min(spec.batch * of_example, elements)


def _to_test(spec: TrialSpec) -> int:
    """The number of test images of the dataset; those of MNIST are as many as a spec may request."""
    if spec.dataset == SYNTHETIC:
        return synthetic.tests(spec)
    return DIGITS_TO_TEST if spec.dataset == "digits" else spec.test_images
