"""claims.yaml: a closed schema whose errors name the key, and claims that fit the study of config.yaml."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.claims.schema import check_claims, load_claims
from tmflow.study.config import load_study

RAW: dict[str, Any] = {
    "configurations": {"Lock": {"strategy": "tf_lock"}, "HTM": {"strategy": "htm"}},
    "claims": {
        "one": {
            "source": "figure 1",
            "statement": "Lock and HTM are equally fast.",
            "hardware": "rtm",
            "studied_to": 64,
            "reach": 16,
            "evidence": ["measured"],
            "checks": [
                {
                    "experiment": "fig-4.1",
                    "where": {"matrix": 784},
                    "equivalent": {"of": ["Lock", "HTM"], "contrast": "average"},
                }
            ],
        }
    },
}


def edited(edit: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    raw = copy.deepcopy(RAW)
    edit(raw)
    return raw


def one(raw: dict[str, Any]) -> dict[str, Any]:
    claim: dict[str, Any] = raw["claims"]["one"]
    return claim


def check(raw: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = one(raw)["checks"][0]
    return first


def test_the_least_claim_is_valid() -> None:
    claims = check_claims(RAW)
    assert claims.claims["one"].experiments() == ["fig-4.1"]
    assert claims.claims["one"].checks[0].place == "fig-4.1, matrix 784"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda raw: one(raw).update(verdikt=1), "unknown key 'claims.one.verdikt'"),
        (lambda raw: check(raw).update(wher=1), "did you mean 'where'?"),
        (lambda raw: check(raw)["equivalent"].update(bond=0.1), "did you mean 'bound'?"),
        (lambda raw: one(raw).pop("source"), "'claims.one.source' is missing"),
        (lambda raw: one(raw).update(hardware="intel"), "claims.one.hardware is 'intel', but should be 'rtm'"),
        (lambda raw: one(raw).update(evidence=["rumour"]), "claims.one.evidence.0 is 'rumour'"),
        (lambda raw: one(raw).update(checks=[]), "a claim has checks, or the verdict 'cannot be tested'"),
        (
            lambda raw: one(raw).update(verdict="reproduced"),
            "claims.one.verdict is 'reproduced', but should be 'cannot",
        ),
        (lambda raw: one(raw).update(verdict="cannot be tested"), "and its reason belong together"),
        (lambda raw: one(raw).update(reason="nobody knows how"), "and its reason belong together"),
        (
            lambda raw: one(raw).update(verdict="cannot be tested", reason="nobody knows how"),
            "a claim has checks, or the verdict 'cannot be tested'",
        ),
        (lambda raw: one(raw).update(reach=0), "claims.one.reach is 0, but should be greater than or equal to 1"),
        (lambda raw: one(raw).pop("reach"), "'claims.one.reach' is missing"),
        (lambda raw: one(raw).update(restates="tow"), "unknown claim in claims.yaml: claims.one.restates: 'tow'"),
        (lambda raw: one(raw).update(restates="one"), "one itself restates a claim"),
        (lambda raw: check(raw)["equivalent"].pop("contrast"), "claims.one.checks.0.equivalent.contrast' is missing"),
        (lambda raw: check(raw)["equivalent"].update(contrast="best"), "but should be 'average' or 'each'"),
        (
            lambda raw: check(raw)["equivalent"].update(metric="ratio"),
            "but should be 'speedup', 'time' or 'time_of_others'",
        ),
        (
            lambda raw: one(raw).update(
                checks=[
                    {
                        "experiment": "x",
                        "share_above": {"of": ["HTM"], "share_of": "aborts", "threshold": 0.5, "contrast": "each"},
                    }
                ]
            ),
            "causes belong to a share of aborts or attempts, which need them",
        ),
        (lambda raw: check(raw).pop("equivalent"), "a check has one predicate, not 0; valid: equivalent"),
        (lambda raw: check(raw).update(peak={"of": ["Lock"], "low": 1, "high": 2}), "one predicate, not 2"),
        (lambda raw: check(raw)["equivalent"].update(of=["Lock"]), "claims.one.checks.0.equivalent.of"),
        (lambda raw: check(raw)["equivalent"].update(bound=5), "claims.one.checks.0.equivalent.bound is 5"),
        (lambda raw: check(raw)["equivalent"].update(of=["Lock", "HTN"]), "did you mean 'HTM'?"),
        (lambda raw: check(raw).update(where={"matrx": 784}), "did you mean 'matrix'?"),
        (lambda raw: raw["configurations"]["HTM"].update(budgt=5), "did you mean 'budget'?"),
        (lambda raw: raw["configurations"].update(HTM={"strategy": "hmt"}), "did you mean 'htm'?"),
        (lambda raw: raw["configurations"].update(HTM={"budget": 5}), "configurations.HTM: 'strategy' is missing"),
        (lambda raw: one(raw).update(evidence=["emulated"]), "emulated cannot decide a claim about time"),
        (
            lambda raw: one(raw).update(
                checks=[{"experiment": "x", "ratio_within": {"of": ["Lock", "HTM"], "contrast": "each"}}]
            ),
            "a ratio needs low, high or both",
        ),
        (
            lambda raw: one(raw).update(
                checks=[
                    {
                        "experiment": "x",
                        "ratio_within": {"of": ["Lock", "HTM"], "low": 2.0, "high": 1.0, "contrast": "each"},
                    }
                ]
            ),
            "low 2.0 is not below high 1.0",
        ),
    ],
)
def test_what_is_wrong_is_named(edit: Callable[[dict[str, Any]], Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_claims(edited(edit))
    assert message in str(caught.value)
    assert str(caught.value).startswith(("claims.yaml", "unknown"))


def test_a_file_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(BadInput, match=r"claims\.yaml must be a mapping, not list"):
        check_claims([])


def test_a_claim_of_speedups_is_tested_on_times_too_and_counts_once() -> None:
    claims = check_claims(RAW).claims
    assert list(claims) == ["one", "one-in-time"]
    assert claims["one-in-time"].restates == "one"
    assert claims["one-in-time"].statement.startswith("Lock and HTM are equally fast. (In times ")
    metrics = [claim.checks[0].predicate.model_dump()["metric"] for claim in claims.values()]
    assert metrics == ["speedup", "time"]
    assert claims["one-in-time"].checks[0].predicate.of_speedup is False


def test_a_share_of_commits_is_of_the_updates_and_of_the_attempts() -> None:
    share = {"of": ["HTM"], "share_of": "commits", "threshold": 0.5, "contrast": "each"}
    raw = edited(lambda raw: one(raw).update(checks=[{"experiment": "x", "share_below": share}]))
    claims = check_claims(raw).claims
    measures = {name: claim.checks[0].predicate.measure.name for name, claim in claims.items()}
    assert measures == {"one": "commits", "one-of-attempts": "commits_of_attempts"}


def test_a_claim_that_cannot_be_tested_has_a_reason_and_no_reading() -> None:
    raw = edited(lambda raw: one(raw).update(checks=[], verdict="cannot be tested", reason="It takes another machine."))
    assert list(check_claims(raw).claims) == ["one"]


def test_a_claim_says_how_many_workers_were_measured_if_its_source_does() -> None:
    for report, studied_to in (("our question", 64), ("HPX study", 64), ("distributed study", None)):
        raw = edited(lambda raw, a=report, b=studied_to: one(raw).update(report=a, studied_to=b))
        with pytest.raises(BadInput, match="studied_to is of a claim of the 2017 study or distributed study, and the"):
            check_claims(raw)
    ours = {name for name, claim in load_claims().claims.items() if claim.report == "our question"}
    assert ours == {
        "distributed-two-workers-equal-updates",
        "distributed-workers-equal-updates",
        "distributed-backup-does-not-wait",
        "executors-same-accuracy",
        "executors-same-speed",
        "hpx-executor-as-fast",
        "hpx-executor-convnets",
        "hpx-transport-as-fast",
        "transport-same-accuracy",
        "transport-faster-small-tensors",
        "transport-faster-large-tensors",
        "rows-lock-of-row-faster",
        "rows-transaction-of-row-never-faster",
        "rows-transaction-of-step-fastest",
        "rows-of-a-step-fit",
        "rows-of-a-step-fit-of-attempts",
        "rows-without-lock-same-accuracy",
        "rows-apart-same-accuracy",
        "section-transaction-hardly-faster",
        "state-without-lock-same-accuracy",
        "state-locks-of-blocks-faster",
    }


def test_the_claims_of_the_distributed_study_are_those_of_its_report_and_its_tutorial() -> None:
    claims = {name: claim for name, claim in load_claims().claims.items() if claim.report == "distributed study"}
    assert {experiment for claim in claims.values() for experiment in claim.experiments()} == {
        "dist-baseline",
        "dist-workers",
        "dist-variance",
        "dist-sync",
    }
    assert not any(claim.verdict for claim in claims.values())
    bounds = {
        name: [claim.checks[0].predicate.model_dump()[end] for end in ("low", "high")]
        for name, claim in claims.items()
        if "one-worker" in name
    }
    assert bounds == {
        "distributed-one-worker": pytest.approx([0.8 * 0.29, 1.2 * 0.29]),
        "distributed-one-worker-of-the-post": pytest.approx([0.8 * 0.42, 1.2 * 0.42]),
    }


def test_the_project_s_claims_cover_the_study() -> None:
    claims = load_claims().claims
    sources = " ".join(claim.source for claim in claims.values())
    assert sum(claim.restates is None for claim in claims.values()) >= 40
    assert all(f"4.{figure}" in sources for figure in range(1, 14))
    assert {"figures 4.13 to 4.16", "figures 4.17 and 4.18", "conclusions"} <= {c.source for c in claims.values()}
    assert all("published" not in claim.evidence for claim in claims.values())  # a quotation decides nothing


def test_each_curve_of_a_claim_is_one_variant_of_an_experiment_of_config_yaml() -> None:
    """On each machine: its transactions, or the emulated ones."""
    study, claims = load_study(project_root() / "config.yaml"), load_claims()
    for name, claim in claims.claims.items():
        for one_check in claim.checks:
            assert study.source(one_check.experiment) == one_check.experiment, (
                f"{name}: {one_check.experiment} has no runs of its own"
            )
            points = study.points(one_check.experiment, "full", "mnist")
            of_workers = ["threads", *(["iterations"] if one_check.steps_per_worker else [])]
            for configuration in one_check.predicate.of:
                chosen = [p for p in points if one_check.chooses(p, claims.configurations[configuration])]
                mine = [point.factors() for point in chosen]
                assert mine, f"{name}: {one_check.place} has no {configuration}"
                variants = {
                    (
                        point.get("provider"),
                        point.get("profile"),
                        frozenset(point.items() - {(name, point[name]) for name in of_workers}),
                    )
                    for point in mine
                }
                if one_check.steps_per_worker:
                    assert len({point["threads"] for point in mine}) == len(mine) >= 4
                machines = {variant[:2] for variant in variants}
                assert len(variants) == len(machines), (
                    f"{name}: {configuration} in {one_check.place} is several variants"
                )
