"""The drivers of training, by name."""

from __future__ import annotations

from tmflow.spec.trial import TrialSpec
from tmflow.training import native_driver, session
from tmflow.training.measurement import Variant


def make_variant(spec: TrialSpec, max_workers: int, seed: int) -> Variant:
    """Make the variant that runs all points with the graph key of `spec`, with up to `max_workers` workers.

    Raises Unsupported if it cannot run here.
    """
    if spec.driver == "native":
        return native_driver.Variant(spec)
    return session.Variant(spec, max_workers, seed)


def graph_key(spec: TrialSpec) -> str:
    """Trials with the same key run in the same variant."""
    return native_driver.graph_key(spec) if spec.driver == "native" else session.graph_key(spec)
