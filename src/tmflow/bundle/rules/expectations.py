"""The expectations that follow from a spec and a machine; all their runs share them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tmflow.bundle.rules.speed_limits import Limits
from tmflow.native.registry import mechanism_of, promises_of_updates
from tmflow.spec.trial import TrialSpec
from tmflow.training.models import load_network
from tmflow.training.variables import JOINED

DIGITS_TO_TEST = 300  # all test images of digits; MNIST has as many as a spec may request
EMULATED = "emulated"


@dataclass(frozen=True)
class Expectations:
    """The expectations of a run.

    family_sha256: the hash shared by specs that differ only in threads. elements: by variable. sections: critical
    sections per update, by variable; None if unknown. tested: number of test images. mechanism: the kind of
    transactions, None without transactions, `EMULATED` if the run names the machine. update_s: the least seconds of an
    update, by variable; empty if unknown.
    """

    spec: TrialSpec
    spec_sha256: str
    family_sha256: str
    strategy_exists: bool
    elements: Mapping[str, int]
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
    is_emulated = spec.provider == EMULATED
    return Expectations(
        spec=spec,
        spec_sha256=spec.sha256,
        family_sha256=spec.model_copy(update={"threads": 1}).sha256,
        strategy_exists=spec.strategy in promises_of_updates(),
        elements=elements,
        sections=None if spec.kernel == "fused" else sections,
        tested=min(spec.test_images, DIGITS_TO_TEST) if spec.dataset == "digits" else spec.test_images,
        mechanism=EMULATED if is_emulated else mechanism_of(spec.strategy, spec.parameters()),
        update_s={name: limits.update_s(n, spec.kernel) for name, n in elements.items()} if limits else {},
    )
