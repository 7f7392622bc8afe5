"""The tables. What a run refers to is in `entities`, what was measured is in `results`."""

from tmflow.store.models.base import Base, Count, Flag, Real, UtcTime
from tmflow.store.models.entities import (
    Backend,
    Campaign,
    Environment,
    Experiment,
    Platform,
    Reference,
    Round,
    RunFile,
    Software,
    Spec,
)
from tmflow.store.models.results import AbortReason, Counters, CurvePoint, Run, RunAbort, Staleness, ThreadAbort

__all__ = [
    "AbortReason",
    "Backend",
    "Base",
    "Campaign",
    "Count",
    "Counters",
    "CurvePoint",
    "Environment",
    "Experiment",
    "Flag",
    "Platform",
    "Real",
    "Reference",
    "Round",
    "Run",
    "RunAbort",
    "RunFile",
    "Software",
    "Spec",
    "Staleness",
    "ThreadAbort",
    "UtcTime",
]
