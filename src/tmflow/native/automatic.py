"""The strategy that serves a consistency, for callers who do not choose one."""

from __future__ import annotations

from typing import Literal, get_args

from tmflow.base.errors import BadInput, unknown
from tmflow.native import availability
from tmflow.native.registry import ResolvedStrategy, resolve_text

Consistency = Literal["none", "element", "block", "tensor"]
"""What concurrent updates of a variable guarantee, the weakest first (docs/concepts.md)."""

AUTO = "auto"
DEFAULT: Consistency = "block"
STRATEGIES: dict[Consistency, str] = {
    "none": "nolock",
    "element": "adaptive:promise=block",
    "block": "adaptive:promise=block",
    "tensor": "adaptive:promise=tensor",
}


def resolve(strategy: str, consistency: Consistency | None) -> ResolvedStrategy:
    """The variant that is asked for; for "auto" the one of the consistency, or of "block" if none is given.

    Raises BadInput for an unknown name, for TensorFlow's own updates, for updates that are fused with their gradients,
    and for a variant that guarantees less than `consistency`; Unsupported for one that cannot run here.
    """
    order = list(get_args(Consistency))
    if consistency is not None and consistency not in order:
        raise unknown("consistency", consistency, order)
    resolved = resolve_text(STRATEGIES[consistency or DEFAULT] if strategy == AUTO else strategy)
    if resolved.is_stock:
        raise BadInput(f"strategy '{resolved.name}' is TensorFlow's own update of a TF1 graph.")
    if resolved.is_fused:
        raise BadInput("kernel fused needs the factors of a gradient, and this update is given the gradient.")
    try:
        availability.require(resolved)
    except ValueError as error:  # of a parameter
        raise BadInput(f"{error}.") from error
    guaranteed = str(resolved.entry.update_consistency)
    if consistency is not None and strategy != AUTO and order.index(guaranteed) < order.index(consistency):
        raise BadInput(
            f"strategy '{strategy}' guarantees the consistency {guaranteed}, which is less than {consistency}."
        )
    return resolved
