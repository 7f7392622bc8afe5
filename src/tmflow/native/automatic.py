"""The consistency that a variant guarantees, and the strategy for callers who name only a consistency."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal, get_args

from tmflow.base.errors import BadInput, unknown
from tmflow.native import availability, loader
from tmflow.native.registry import ResolvedStrategy, resolve_text
from tmflow.spec.strategies import Value

Consistency = Literal["none", "element", "block", "tensor"]
"""What concurrent updates of a variable guarantee, the weakest first (docs/concepts.md)."""

AUTO = "auto"
DEFAULT: Consistency = "block"
MOST_WORKERS = 1024  # each has counters for each variable
STRATEGIES: dict[Consistency, str] = {
    "none": "nolock",
    "element": "adaptive:promise=block",
    "block": "adaptive:promise=block",
    "tensor": "adaptive:promise=tensor",
}


# By strategy, the parameter that sets how many elements it updates atomically; 0 stands for all, but see
# _SHORTEST_FITTED.
_AS_A_WHOLE = {
    **dict.fromkeys(("lock", "spin", "htm", "stm"), "chunk"),
    **dict.fromkeys(("striped", "combining", "htm_if_fits"), "block"),
}

# The shortest blocks of strategies whose `block` 0 is a length that fits the variable.
_SHORTEST_FITTED = {"striped": 2048, "htm_if_fits": 2048, "combining": 4096}


def consistency_of(strategy: str, consistency: str, parameters: Mapping[str, Value], elements: int) -> str:
    """The consistency of updates with these parameters and this size; `consistency`: that of the strategy."""
    if strategy == "adaptive":
        return str(parameters["promise"])
    if strategy not in _AS_A_WHOLE:
        return consistency
    part = parameters.get(_AS_A_WHOLE[strategy]) or _SHORTEST_FITTED.get(strategy, 0)
    return "block" if isinstance(part, int) and 0 < part < elements else "tensor"


def resolve(strategy: str, consistency: Consistency | None) -> ResolvedStrategy:
    """The variant that is asked for; for "auto" the one of the consistency, or of "block" if none is given.

    Raises BadInput for an unknown name, for TensorFlow's own updates, for updates that are fused with their gradients,
    for a strategy that keeps variables elsewhere than in their memory, and for a variant that guarantees less than
    `consistency`, and if the native library is not built; Unsupported for a variant that cannot run here.
    """
    order = list(get_args(Consistency))
    if consistency is not None and consistency not in order:
        raise unknown("consistency", consistency, order)
    loader.core()  # without it no strategy runs, whatever its name
    resolved = resolve_text(STRATEGIES[consistency or DEFAULT] if strategy == AUTO else strategy)
    if resolved.is_stock:
        raise BadInput(f"strategy '{resolved.name}' is TensorFlow's own update of a TF1 graph.")
    if resolved.is_fused:
        raise BadInput("kernel fused needs the factors of a gradient, and this update is given the gradient.")
    if resolved.entry.keeps_elsewhere:
        raise BadInput(
            f"strategy '{resolved.name}' keeps the variables elsewhere than in their memory, where they are read."
        )
    try:
        availability.require(resolved)
    except ValueError as error:  # of a parameter
        raise BadInput(f"{error}.") from error
    guaranteed = consistency_of(resolved.name, str(resolved.entry.update_consistency), resolved.parameters, sys.maxsize)
    if consistency is not None and strategy != AUTO and order.index(guaranteed) < order.index(consistency):
        raise BadInput(
            f"strategy '{strategy}' guarantees the consistency {guaranteed}, which is less than {consistency}."
        )
    return resolved


def check_workers(workers: int | None) -> int:
    """How many updates can run at once without waiting: the given number, or twice the number of processors.

    Raises BadInput for any number but 1 to MOST_WORKERS.
    """
    if workers is None:
        return min(2 * (os.cpu_count() or 1), MOST_WORKERS)
    if not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
        raise BadInput(f"workers is {workers!r}, but should be a whole number from 1 to {MOST_WORKERS:,}.")
    return workers
