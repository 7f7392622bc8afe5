"""`tmflow study run --hours`: what a study does with the time that its planned rounds leave."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import TINY, Checkout, Tmflow
from tmflow.study import campaign

pytestmark = [pytest.mark.slow, pytest.mark.deep]

ROUNDS = 3  # three fewer than a verdict needs
STUDY = deepcopy(TINY) | {"dataset": "mnist", "rounds": ROUNDS, "rounds_at_most": ROUNDS}
STUDY["defaults"] |= {"driver": "native", "strategy": ["lock", "nolock"], "threads": [1]}
STUDY["experiments"] = {
    name: {"question": f"Does {name} run?", "factors": {"model": "mnist_softmax", "batch": 5, "iterations": 40}}
    for name in ("one", "two")
}
# A range that is so wide that any noise allows a verdict after six rounds.
CLAIMS: dict[str, Any] = {
    "configurations": {"Lock": {"strategy": "lock"}, "NoLock": {"strategy": "nolock"}},
    "claims": {
        "wide": {
            "source": "a test",
            "statement": "The two are about equally fast.",
            "hardware": "any",
            "studied_to": 1,
            "reach": 1,
            "evidence": ["measured"],
            "checks": [
                {
                    "experiment": "one",
                    "ratio_within": {
                        "of": ["Lock", "NoLock"], "contrast": "each", "metric": "time",
                        "least": 1, "low": 0.001, "high": 1000.0,
                    },
                }
            ],
        }
    },
}  # fmt: skip


def n_rounds(checkout: Checkout, experiment: str) -> int:
    return len(list(checkout.results.glob(f"runs/full/{experiment}/*/round-*.jsonl")))


def test_claims_get_the_rounds_that_they_lack_and_no_more(
    tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]
) -> None:
    checkout = checkout_at(tmp_path / "checkout", STUDY)
    (checkout.root / "data" / "claims.yaml").write_text(yaml.safe_dump(CLAIMS, sort_keys=False))

    def run(*arguments: str) -> str:
        done = tmflow("study", "run", "one", *arguments, **checkout.variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    text = run("--hours", "0.0001")
    assert n_rounds(checkout, "one") == ROUNDS, "the planned rounds always run"
    assert (
        "--hours 0.0001 added no round.\nNo further round fits in the time that is left; wide would need some" in text
    )
    assert "wide  " in text
    run()
    assert n_rounds(checkout, "one") == ROUNDS, "without --hours nothing is added"

    text = run("--hours", "1")
    assert n_rounds(checkout, "one") == 6
    assert (
        "tmflow: one more round of one: wide is decided soonest, with about 3 more rounds; a verdict needs six" in text
    )
    assert "--hours 1 added 3 rounds of one" in text
    assert "get no further round, by reason: enough for 80% power: 1." in text
    latest = campaign.load(checkout.results, "full")
    assert latest is not None
    assert list(latest.claim_rounds.values()) == [6]

    # As after a kill before the last round was written: it is allotted, so a call without --hours measures it, too.
    (lost,) = checkout.results.glob("runs/full/one/*/round-006.jsonl")
    kept = lost.with_name("round-005.jsonl").read_bytes()
    lost.unlink()
    run()
    assert n_rounds(checkout, "one") == 6
    assert lost.with_name("round-005.jsonl").read_bytes() == kept
    assert "--hours 1 added no round." in run("--hours", "1")
    assert n_rounds(checkout, "one") == 6

    done = tmflow("study", "plan", "--power", "0.8", "--json", **checkout.variables)
    (plan,) = json.loads(done.stdout)["claims"]
    assert (plan["claim"], plan["noise"], plan["experiments"][0]["rounds"]) == ("wide", "measured", 6)
    assert n_rounds(checkout, "two") == 0
