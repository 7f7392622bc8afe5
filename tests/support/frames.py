"""Runs as `store.queries.runs` returns them, made by a simple law, so that tests know every answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tmflow.analysis.run_table import Loaded
from tmflow.spec.trial import TrialSpec

SPEC = {"model": "mnist_softmax", "dataset": "mnist", "batch": 100, "iterations": 1000, "learning_rate": 0.5}
RUN = {
    "experiment": "fig_4_1",
    "scale": "full",
    "definition_sha256": "d" * 64,
    "campaign_uid": "campaign-1",
    "platform": "box-1",
    "platform_name": "A box",
    "hardware_threads": 4,
    "evidence": "measured",
    "backend": None,
    "time_domain": "wall",
    "dataset_sha256": "a" * 64,
    "status": "ok",
    "reason": None,
    "disturbed": False,
    "others_fraction": None,
    "total_s": None,
    "resumed": False,
    "software": "tmflow 0.1.0 at 0123456789",
}


def run(*, round: int = 1, loop_s: float = 1.0, final_accuracy: float | None = 0.9, **changes: Any) -> dict[str, Any]:
    """One run; `changes` are factors or columns of `RUN`."""
    factors = {**SPEC, "strategy": "tf_lock", "threads": 1} | {
        k: v for k, v in changes.items() if k in TrialSpec.model_fields
    }
    rest = {k: v for k, v in changes.items() if k not in TrialSpec.model_fields}
    spec = TrialSpec.model_validate(factors).model_dump()
    uid = "-".join(str(part) for part in (spec["strategy"], spec["threads"], round, *rest.values()))
    result = {"loop_s": loop_s, "final_accuracy": final_accuracy, "started_at_utc": f"2026-01-0{round}T10:00:00Z"}
    return {**RUN, **spec, "uid": uid, "round": round, **result, **rest}


def grid(
    strategies: Sequence[str] = ("tf_lock", "tf_nolock"),
    threads: Sequence[int] = (1, 2, 4, 8),
    rounds: int = 6,
    **changes: Any,
) -> pd.DataFrame:
    """Strategy k with w threads takes (1 + k/10) * r / w seconds in round r: paired speedups are exact."""
    return pd.DataFrame(
        [
            run(
                strategy=strategy,
                threads=w,
                round=r,
                loop_s=(1 + k / 10) * r / w,
                final_accuracy=0.9 + 0.001 * r,
                **changes,
            )
            for k, strategy in enumerate(strategies)
            for w in threads
            for r in range(1, rounds + 1)
        ]
    )


def ended(runs: pd.DataFrame, which: pd.Series, status: str, reason: str) -> None:
    """Give these runs this status, without a result and without a dataset."""
    runs.loc[which, ["status", "reason", "dataset_sha256"]] = [status, reason, None]
    runs.loc[which, ["loop_s", "final_accuracy"]] = float("nan")


DETAILS = {
    "curves": ["uid", "iteration", "elapsed_s", "accuracy"],
    "staleness": ["uid", "staleness", "steps"],
    "transactions": ["uid", "commits", "fallbacks", "attempts"],
    "aborts": ["uid", "mechanism", "family", "raw_code", "n"],
    "full": ["uid", "lost_fraction", "torn_fraction", "inconsistent_fraction"],
    "variables": ["uid", "variable", "updates", "commits", "fallbacks"],
    "phases": ["uid", "phase", "phase_us", "transfers", "bytes"],
}


def records(runs: pd.DataFrame, **details: pd.DataFrame) -> Loaded:
    """Exactly these runs, with the given details."""
    return Loaded(runs, **{name: details.get(name, pd.DataFrame(columns=DETAILS[name])) for name in DETAILS})
