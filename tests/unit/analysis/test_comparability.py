"""Differences that block a comparison, and those that may explain it; unknown never counts as equal."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis.comparability import Difference, Things, differences, forbids
from tmflow.analysis.comparison import Sides, compared

FACTS: dict[str, Any] = {"cpu_model": "A CPU", "l3_bytes": 1 << 20}
SETTINGS: dict[str, Any] = {"kernel": "Linux 6.1", "microcode": "0x1", "mitigations": {"mds": "Not affected"}}
SOFTWARE: dict[str, Any] = {"tmflow": "0.1.0", "git_commit": "a" * 40, "git_dirty": False}


def side(strategy: str = "lock", **changes: Any) -> pd.DataFrame:
    return grid((strategy,), **({"software_sha256": "s", "env_sha256": "e"} | changes))


def found(a: pd.DataFrame, b: pd.DataFrame, **other: dict[str, Any]) -> dict[str, Difference]:
    """The differences by fact; `other` are facts of a second platform, environment or software."""
    things = Things(
        {"box-1": FACTS, "box-2": FACTS | other.get("platform", {})},
        {"e": SETTINGS, "e2": SETTINGS | other.get("environment", {})},
        {"s": SOFTWARE, "s2": SOFTWARE | other.get("software", {})},
    )
    return {difference.fact: difference for difference in differences(Sides(a, b), things)}


def test_only_what_is_compared_differs_where_all_else_is_the_same() -> None:
    assert set(found(side("tf_lock"), side("lock"))) <= {"strategy", "consistency of updates"}
    assert found(side("tf_lock"), side("lock"))["strategy"].judgement == "meant"


@pytest.mark.parametrize(
    ("change", "fact", "values"),
    [
        ({"evidence": "simulated"}, "evidence", ("measured", "simulated")),
        ({"scale": "quick"}, "scale", ("full", "quick")),
        ({"time_domain": "simulated"}, "time domain", ("wall", "simulated")),
        ({"dataset_sha256": "b" * 64}, "dataset", ("a" * 10, "b" * 10)),
        ({"batch": 1}, "batch", ("100", "1")),
        ({"driver": "native", "measures": "full"}, "measures", ("usual", "full")),
    ],
)
def test_what_forbids_comparing(change: dict[str, Any], fact: str, values: tuple[str, str]) -> None:
    differ = found(side(), side("nolock", **change))
    assert differ[fact].judgement == "blocks"
    assert (differ[fact].a, differ[fact].b) == values
    blocking = forbids(list(differ.values()), "speed")
    assert any(f"{fact} is {values[0]} in A and {values[1]} in B" in sentence for sentence in blocking)


CLUSTER = {"driver": "cluster", "iterations": 240}


def test_a_cluster_of_processes_is_never_compared_with_threads_nor_sync_with_async() -> None:
    for ours, others, fact in (
        (side(iterations=240), side("nolock", **CLUSTER), "driver"),
        (side(**CLUSTER), side("nolock", **CLUSTER, mode="sync"), "mode"),
    ):
        differ = found(ours, others)
        assert differ[fact].judgement == "blocks"
        assert len(forbids(list(differ.values()), "accuracy")) == len(forbids(list(differ.values()), "speed")) > 0
        assert compared(Sides(ours, others), "speed")["estimate"].isna().all()
    assert "processes" in found(side(iterations=240), side("nolock", **CLUSTER))["driver"].why
    both = pd.concat([side(iterations=240), side(**CLUSTER)], ignore_index=True)
    pairs = compared(Sides(both, side("nolock", **CLUSTER)), "speed").dropna(subset="estimate")
    assert set(pairs["driver"]) == {"cluster"}  # only points of the same driver are compared


def test_a_network_that_is_measured_anew_in_each_round_is_not_compared() -> None:
    other = {"network": [{"server": 0, "interface": "loopback", "rtt_us": 20.0, "bandwidth_mb_s": 3000.0}]}
    assert "network" not in found(side(), side("nolock", env_sha256="e2"), environment=other)
    assert "kernel" in found(side(), side("nolock", env_sha256="e2"), environment={"kernel": "Linux 6.2"})


def test_uncommitted_changes_of_two_campaigns_may_differ() -> None:
    changed = {"software_sha256": "s2"}
    second = side("nolock", campaign_uid="campaign-2", **changed)
    facts = {"software": {"git_dirty": True}}
    fact = "uncommitted changes in the campaign"
    assert found(side(**changed), second, **facts)[fact].judgement == "caution"
    assert fact not in found(side(**changed), side("nolock", **changed), **facts)
    assert fact not in found(side(), second, **facts)
    assert fact not in found(side(**changed), second)


def test_emulated_time_forbids_speeds_but_not_accuracies() -> None:
    differ = list(found(side(evidence="emulated"), side("nolock", evidence="emulated")).values())
    assert len(forbids(differ, "speed")) == 1
    assert forbids(differ, "accuracy") == []


def test_settings_and_software_that_differ_are_a_caution() -> None:
    other = {"env_sha256": "e2", "software_sha256": "s2", "campaign_uid": "campaign-2"}
    differ = found(
        side(), side(**other), environment={"kernel": "Linux 6.2", "microcode": None}, software={"git_commit": "b" * 40}
    )
    assert (differ["kernel"].a, differ["kernel"].b, differ["kernel"].judgement) == ("Linux 6.1", "Linux 6.2", "caution")
    assert (differ["microcode"].a, differ["microcode"].b) == ("0x1", "unknown")
    assert differ["git commit"].a == "a" * 10
    assert differ["campaign uid"].judgement == "harmless"
    assert forbids(list(differ.values()), "speed") == []


def test_unknown_on_both_sides_is_not_equal() -> None:
    a, b = side(env_sha256="e2"), side("nolock", env_sha256="e2")
    unknown = found(a, b, environment={"microcode": None})["microcode"]
    assert (unknown.a, unknown.b, unknown.judgement) == ("unknown", "unknown", "harmless")  # one process ran both
    later = found(a, b.assign(campaign_uid="campaign-2"), environment={"microcode": None})["microcode"]
    assert later.judgement == "caution"


def test_an_unknown_dataset_forbids_nothing_but_is_told() -> None:
    differ = found(side(), side("nolock", dataset_sha256=None))
    assert (differ["dataset"].b, differ["dataset"].judgement) == ("unknown", "caution")


def test_platforms_are_meant_to_differ_and_their_facts_are_told() -> None:
    differ = found(side(), side(platform="box-2", campaign_uid="c2"), platform={"l3_bytes": None, "cpu_model": "B CPU"})
    assert (differ["cpu model"].a, differ["cpu model"].b, differ["cpu model"].judgement) == ("A CPU", "B CPU", "meant")
    assert (differ["l3 bytes"].a, differ["l3 bytes"].b) == ("1 MiB", "unknown")


def test_disturbed_runs_are_a_caution_and_unknown_ones_are_counted() -> None:
    some = side("nolock")
    some["disturbed"] = some["disturbed"].astype("boolean")
    some.loc[some["round"] == 1, "disturbed"] = True
    some.loc[some["round"] == 2, "disturbed"] = pd.NA
    differ = found(side(), some)["disturbed"]
    assert (differ.a, differ.b, differ.judgement) == ("0 of 24 runs", "4 of 20 runs, unknown of 4 more", "caution")


def test_what_forbids_comes_first() -> None:
    order = [difference.judgement for difference in found(side(), side("nolock", scale="quick", batch=1)).values()]
    assert order == sorted(order, key=["blocks", "caution", "meant", "harmless"].index)
