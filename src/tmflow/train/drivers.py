"""The drivers of training, by name: what runs a trial, and why it cannot."""

from __future__ import annotations

import os

from tmflow.native import process_state
from tmflow.platform.environment import cpus_allowed
from tmflow.spec import TrialSpec
from tmflow.train import native, session
from tmflow.train.measurement import Variant


def make_variant(spec: TrialSpec, max_workers: int, seed: int) -> Variant:
    """What runs `spec`, and all points with its graph key, with up to so many workers. Raises Unsupported."""
    if spec.driver == "native":
        return native.Variant(spec, max_workers)
    return session.Variant(spec, max_workers, seed)


def why_not(spec: TrialSpec) -> str | None:
    """Why a trial cannot run here; None if it can, as far as that can be told without trying."""
    of_driver = native.why_not if spec.driver == "native" else session.why_not
    return of_driver(spec) or _too_many_to_emulate(spec) or process_state.why_not(spec.strategy, spec.parameters())


def graph_key(spec: TrialSpec) -> str:
    """Trials with the same key run in the same variant."""
    return native.graph_key(spec) if spec.driver == "native" else session.graph_key(spec)


def _too_many_to_emulate(spec: TrialSpec) -> str | None:
    cpus = cpus_allowed() or os.cpu_count() or 1
    if spec.provider == "emulated" and spec.threads > cpus:
        return (
            f"{spec.threads} threads are more than the {cpus} processors that this process may use: emulated "
            "transactions would not overlap as those of the machine do"
        )
    return None
