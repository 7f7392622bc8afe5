"""What follows from the spec of a run and from the machine, and is the same for all runs of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tmflow.bundle.rules.speed_limits import Limits
from tmflow.native.registry import mechanism_of, promises_of_updates
from tmflow.spec.trial import TrialSpec
from tmflow.training.models import load_network
from tmflow.training.variables import JOINED

DIGITS_TO_TEST = 300  # all that there are; of MNIST there are as many as a spec may ask for
EMULATED = "emulated"


@dataclass(frozen=True)
class Known:
    """What is expected of a run.

    family_sha256: the hash that specs which differ in threads alone have in common. elements: by variable. sections:
    critical sections of an update, by variable; None where nobody can tell. tested: images that the accuracy is a share
    of. mechanism: whose transactions are tried, None if none are, `EMULATED` where the run itself says of which
    machine. update_s: by variable, the least seconds of an update; empty if not known.
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


def known(spec: TrialSpec, limits: Limits | None) -> Known:
    """Of the spec of a run, and of the limits of the machine if they were probed."""
    elements = {its.name: math.prod(its.shape) for its in load_network(spec.model).variables(spec)}
    if spec.layout == JOINED:
        elements = {JOINED: sum(elements.values())}
    sections = {name: -(-n // spec.chunk) if spec.chunk else 1 for name, n in elements.items()}
    is_emulated = spec.provider == EMULATED
    return Known(
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
