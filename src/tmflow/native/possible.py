"""What can be trained here, as far as that can be told without trying."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tmflow.native import availability, fused, registry
from tmflow.platform.environment import cpus_allowed

if TYPE_CHECKING:
    from tmflow.spec.trial import TrialSpec


def why_not(spec: TrialSpec) -> str | None:
    """Why a trial cannot run here; None if it can, as far as that can be told without trying."""
    return not_so(spec) or availability.why_not(spec.strategy, spec.parameters())


def not_so(spec: TrialSpec) -> str | None:
    """Why a trial cannot run anywhere, or not on so few processors, whatever this process is like; None if it can."""
    return _not_native(spec) or _not_fitting(spec) or _too_many_to_emulate(spec)


def _not_native(spec: TrialSpec) -> str | None:
    if spec.driver == "native" and registry.require(spec.strategy).provider == "stock":
        return f"strategy {spec.strategy} is TensorFlow's own update, which the native driver does without"
    return None


def _not_fitting(spec: TrialSpec) -> str | None:
    """Why the strategy cannot be read or fused, or the variables be laid out, as asked; None if they can."""
    strategy = registry.require(spec.strategy)
    if spec.reading == "consistent" and strategy.promise_snapshots == "none":
        return f"strategy {spec.strategy} has no consistent read: it promises nothing of what is read by way of it"
    if spec.reading == "plain" and strategy.keeps_elsewhere:
        return (
            f"strategy {spec.strategy} keeps the variables elsewhere than in their memory, so a plain read would find "
            "none of the updates: it needs reading consistent"
        )
    if spec.layout == "joined" and spec.kernel == "fused":
        return "kernel fused updates each dense layer from its own factors, and layout joined has one variable for all"
    if spec.kernel == "fused" and spec.provider == "emulated":
        return fused.NOT_EMULATED
    return None


def _too_many_to_emulate(spec: TrialSpec) -> str | None:
    cpus = cpus_allowed() or os.cpu_count() or 1
    if spec.provider == "emulated" and spec.threads > cpus:
        return (
            f"{spec.threads} threads are more than the {cpus} processors that this process may use: emulated "
            "transactions would not overlap as those of the machine do"
        )
    return None
