"""Runs of a user's own model, as `tmflow advise --save` makes them, on the fictitious machine of the sample runs."""

from __future__ import annotations

import uuid
from typing import Any

from tests.support.sample_bundles import elements
from tests.support.sample_runs import sample_runs
from tmflow.base.canonical_json import sha256_of
from tmflow.runfile.record import CampaignRef, ExperimentRef, Lost, Run
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import TrialSpec

ARRAYS: dict[str, Any] = {"driver": "arrays", "shapes": "100x10,10", "step_us": 20.0, "batch": 1, "learning_rate": 1.0}
KERAS: dict[str, Any] = {
    "driver": "keras", "shapes": "20x16,16,16x3,3,8,8", "architecture": "a1" * 32, "steps_per_call": 16, "batch": 4,
    "learning_rate": 0.01,
}  # fmt: skip
WAYS = (("lock", 2, 100.0), ("striped", 2, 90.0), ("nolock", 2, 80.0), ("lock", 1, 130.0))  # us of a step


def own_spec(subject: dict[str, Any], strategy: str = "lock", threads: int = 2, **factors: Any) -> TrialSpec:
    return TrialSpec.model_validate(
        {
            "model": "own_model", "dataset": "own", "strategy": strategy, **parameters_of(strategy), "threads": threads,
            "iterations": 3200, **subject, **factors,
        }
    )  # fmt: skip


def own_runs(subject: dict[str, Any], rounds: int = 3) -> list[Run]:
    """The runs of one advice: its rounds, and a round that counts."""
    factors = {"model": "own_model", **subject}
    definition = {"factors": factors, "workers": 2, "consistency": "block", "scale": "adhoc"}
    experiment = ExperimentRef(
        name="advise", scale="adhoc", definition_sha256=sha256_of(definition), definition=definition
    )
    campaign = CampaignRef(uid=_uid(subject), created_at_utc="2026-01-01T00:00:00.000Z")
    shared = {"experiment": experiment, "campaign": campaign, "dataset_sha256": None, "final_accuracy": None}
    nothing: dict[str, Any] = {name: [] for name in ("counters", "aborts", "staleness", "retries", "curve", "lost")}
    (sample,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1)
    runs = []
    for number in range(1, rounds + 2):
        counts = number > rounds
        for ordinal, (strategy, threads, us) in enumerate(WAYS[1:3] if counts else WAYS):
            spec = own_spec(subject, strategy, threads, measures="full" if counts else "usual")
            lost = [Lost(variable=name, expected=n * spec.iterations, lost=0) for name, n in elements(spec).items()]
            place = {"round": number, "ordinal": ordinal, "order_seed": number - 1, "trial_seed": number - 1}
            uid = _uid(campaign.uid, number, ordinal)
            noise = 0.05 * int(uid[:8], 16) / 2**32
            loop_s = spec.iterations * us * (1 + noise) / 1e6
            fields = {**shared, **nothing, **place, "spec": spec, "loop_s": loop_s, "total_s": 1.1 * loop_s}
            fields |= {
                "uid": uid,
                "started_at_utc": f"2026-01-01T00:{number:02}:{10 * ordinal:02}.000Z",
                "lost": lost if counts else [],
            }
            plain = {"setup_s": None, "evaluation_s": None}
            runs.append(Run.model_validate(sample.model_copy(update=fields | plain).model_dump()))
    return runs


def _uid(*parts: Any) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, repr(parts)))
