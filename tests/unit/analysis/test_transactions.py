"""Summaries of transactions, also emulated ones: no meaningless times, no mixed evidence, readable names."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.frames import ended, grid, run
from tmflow.analysis import summaries
from tmflow.analysis.variants import panels, unusual
from tmflow.analysis.variants import variants as names_of
from tmflow.charts import captions
from tmflow.charts.axes import value_range
from tmflow.runfile.record import NO_TIME
from tmflow.spec.strategies import parameters_of


def emulated(profile: str = "intel-tsx-study", backend: str = "0123abcd", **changes: Any) -> pd.DataFrame:
    factors = {**parameters_of("htm"), "provider": "emulated", "profile": profile} | changes
    return grid(("htm",), (1, 2), **factors, evidence="emulated", backend=f"{profile} {backend}")


@pytest.mark.parametrize("seconds", [1.0, math.nan])  # as in a run file, and as the queries return them
def test_emulated_runs_show_accuracy_but_no_time(seconds: float) -> None:
    runs = pd.concat([emulated().assign(loop_s=seconds), grid(("tf_lock",), (1, 2))])
    for summary in (summaries.speedup(runs), summaries.speedup(runs, "tf_lock"), summaries.step_time(runs)):
        htm = summary[summary["strategy"] == "htm"]
        assert htm["estimate"].isna().all()
        assert set(htm["reason"]) >= {NO_TIME}
        assert summary.loc[summary["strategy"] == "tf_lock", "estimate"].notna().all()
    assert summaries.accuracy(runs)["estimate"].notna().all()


def test_emulated_and_measured_and_two_emulators_are_never_drawn_together() -> None:
    measured = grid(("htm",), (1, 2), **parameters_of("htm"))
    runs = pd.concat([measured, emulated(), emulated(backend="4567cdef"), emulated("ibm-power8-s822")])
    summary = summaries.accuracy(runs)
    assert summary["rounds"].tolist() == [6] * 8
    parts = dict(panels(summary))
    assert list(parts) == [
        "emulated, backend ibm-power8-s822 0123abcd",
        "emulated, backend intel-tsx-study 0123abcd",
        "emulated, backend intel-tsx-study 4567cdef",
        "measured",
    ]
    for label, part in parts.items():
        text = captions.caption(part, "1", label).text
        assert ("the hardware transactions of" in text) == ("emulated" in label)
        assert all(name in text for name in part["profile"].dropna())


def stm(**parameters: Any) -> pd.DataFrame:
    return grid(("stm",), (1,), **parameters_of("stm") | parameters)


def test_of_many_parameters_that_differ_only_the_unusual_are_told() -> None:
    runs = pd.concat([stm(), stm(design="wt"), stm(manager="backoff", chunk=64), stm(instrumentation="all")])
    assert set(summaries.accuracy(runs)["variant"]) == {
        "stm", "stm (design wt)", "stm (chunk 64, manager backoff)", "stm (instrumentation all)",
    }  # fmt: skip
    two = pd.concat([stm(), stm(design="wt", manager="backoff"), stm(manager="delay")])
    assert set(summaries.accuracy(two)["variant"]) == {
        "stm (design wb_etl, manager suicide)",
        "stm (design wb_etl, manager delay)",
        "stm (design wt, manager backoff)",
    }  # fmt: skip


def test_runs_older_than_a_parameter_keep_a_name_of_their_own() -> None:
    old = {"provider": parameters_of("htm")["provider"], "budget": 5, "spending": "study_tsx", "chunk": 0}
    runs = pd.concat([grid(("htm",), (1,), **parameters) for parameters in (old, parameters_of("htm"))])
    assert set(summaries.accuracy(runs)["variant"]) == {
        "htm", "htm (kernel plain, optimisation O3, subscription variable)",
    }  # fmt: skip


def test_a_budget_that_goes_with_its_spending_is_not_unusual() -> None:
    power = run(strategy="htm", **parameters_of("htm", "study_power") | {"spending": "study_power"})
    assert unusual(power) == {"spending": "study_power"}
    assert unusual({**power, "budget": 5}) == {"spending": "study_power", "budget": 5}


@given(st.lists(st.builds(
    lambda *values: dict(zip(("design", "manager", "instrumentation", "chunk"), values, strict=True)),
    st.sampled_from(["wb_etl", "wb_ctl", "wt"]), st.sampled_from(["suicide", "delay"]),
    st.sampled_from(["all", "shared"]), st.sampled_from([0, 64]),
), min_size=1, max_size=8, unique_by=lambda p: tuple(p.values())))  # fmt: skip
def test_different_variants_have_different_names(variants: list[dict[str, Any]]) -> None:
    rows = pd.DataFrame([run(strategy="stm", **parameters_of("stm") | parameters) for parameters in variants])
    assert names_of(rows).nunique() == len(variants)


def ends(runs: pd.DataFrame, commits: int | None, fallbacks: int | None, attempts: int | None) -> pd.DataFrame:
    """The result of `queries.transactions` if every run has these counts."""
    counts = {"commits": commits, "fallbacks": fallbacks, "attempts": attempts}
    return pd.DataFrame([{"uid": uid, **counts} for uid in runs["uid"]]).astype(dict.fromkeys(counts, "Int64"))


def test_commits_are_a_share_of_critical_sections() -> None:
    runs = pd.concat([emulated(), grid(("lock",), (1,)), stm(), grid(("tle",), (1,))])
    counts = [
        ends(runs[runs["strategy"] == strategy], *row)
        for strategy, row in {"htm": (30, 10, 70), "stm": (5, None, 8), "tle": (1, 3, None)}.items()
    ]
    summary = summaries.commits(runs, pd.concat(counts))
    assert dict(summary.groupby("strategy")["estimate"].mean()) == {"htm": 0.75, "stm": 1, "tle": 0.25}
    assert (set(summary["measure"]), set(summary["unit"])) == ({"commits"}, {"fraction"})
    assert value_range(summary.assign(low=-0.1, high=1.1)) == (0, 1, False, False)
    nothing = ends(emulated().assign(uid="other"), 0, 0, 0)
    assert summaries.commits(runs, pd.concat([*counts, nothing])).equals(summary)


def test_a_lone_strategy_without_result_is_named_in_commits_but_a_lock_is_not() -> None:
    runs = grid(("htm", "lock"), (1,))
    ended(runs, runs["round"] > 0, "unsupported", "no such hardware")
    summary = summaries.commits(runs, ends(runs, 1, 1, 1)[:0])
    assert summary["strategy"].tolist() == ["htm"]
    assert summary["reason"].tolist() == ["unsupported: no such hardware"]


def test_failures_are_a_share_of_attempts_by_family() -> None:
    runs = pd.concat([emulated(), stm(), grid(("tle",), (1,))])
    htm, software, tle = (runs[runs["strategy"] == strategy] for strategy in ("htm", "stm", "tle"))
    counts = pd.concat([ends(htm, 30, 10, 40), ends(software, 5, 0, 20), ends(tle, 1, 3, None)])
    aborts = [
        {"uid": uid, "mechanism": mechanism, "family": family, "raw_code": "0x0000000c", "n": n}
        for table, mechanism, families in (
            (htm[htm["round"] > 3], "rtm", {"capacity": 10}),
            (software, "stm", {"conflict": 10, "validation": 5}),
        )
        for uid in table["uid"]
        for family, n in families.items()
    ]
    summary = summaries.failures(runs, counts, pd.DataFrame(aborts))
    estimates = {(row.strategy, row.cause): row.estimate for row in summary.itertuples()}
    assert estimates == pytest.approx(
        {
            ("htm", "any"): 0.125,
            ("htm", "capacity"): 0.125,
            ("stm", "any"): 0.75,
            ("stm", "conflict"): 0.5,
            ("stm", "validation"): 0.25,
        }
    )  # rounds without an abort count as zero, runs with unknown attempts do not count
    assert set(summary.loc[summary["strategy"] == "htm", "rounds"]) == {6}
    as_the_study = summaries.failures(runs, counts, pd.DataFrame(aborts), "class")
    assert {(row.strategy, row.cause) for row in as_the_study.itertuples()} == {("htm", "any"), ("htm", "conflict")}
    assert set(as_the_study["measure"]) == {"failures"}  # capacity with the conflict bit is a conflict there


def test_hardware_without_an_abort_failed_in_no_attempt() -> None:
    runs = emulated()
    none = pd.DataFrame(columns=["uid", "mechanism", "family", "raw_code", "n"])
    summary = summaries.failures(runs, ends(runs, 30, 0, 30), none, "class")
    assert set(zip(summary["cause"], summary["estimate"], strict=True)) == {("any", 0.0)}


def test_aborts_are_counted_in_the_study_s_classes_by_its_rule_and_by_the_bits() -> None:
    runs = pd.DataFrame(
        {"uid": ["a", "b"], "platform": "p", "evidence": ["measured", "emulated"], "profile": [None, "x"]}
    )
    rows = [("rtm", "0x00000008", 5), ("rtm", "0x0000000c", 3), ("rtm", "0x00000006", 2), ("stm", "0x00000003", 9)]
    aborts = pd.DataFrame(rows, columns=["mechanism", "raw_code", "n"]).assign(uid="a")
    aborts.loc[len(aborts)] = ["rtm", "0x00000006", 7, "b"]
    found = summaries.classes(runs, aborts)
    assert found[["evidence", "class", "study", "bits"]].to_numpy().tolist() == [
        ["emulated", "conflict", 7, 7],
        ["measured", "capacity", 5, 8],
        ["measured", "conflict", 5, 2],
    ]
    assert summaries.classes(runs, aborts[aborts["mechanism"] == "stm"]).empty
