"""Ratios of times, only of points that are otherwise equal, paired within a round: known answers."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis.baseline import time_ratios
from tmflow.analysis.rounds import pair_by_round
from tmflow.base.errors import BadInput

PLAIN = {"kernel": "plain", "optimisation": "O3"}
HTM = {"provider": "rtm", "spending": "study_tsx", "chunk": 0, **PLAIN}


def slower(runs: pd.DataFrame, times: float) -> pd.DataFrame:
    return runs.assign(loop_s=runs["loop_s"] * times)


def test_a_factor_s_ratio_holds_all_else_equal() -> None:
    runs = pd.concat(
        [
            slower(grid(("lock",), (1, 2), kernel=kernel, optimisation=optimisation), times)
            for kernel, optimisation, times in (("plain", "O3", 1), ("plain", "O0", 3), ("eigen", "O0", 12))
        ],
        ignore_index=True,
    )
    optimised = time_ratios(runs, "optimisation", "O3")
    assert optimised["threads"].tolist() == [1, 2]  # eigen was not measured with O3
    assert optimised[["estimate", "low", "high"]].to_numpy().ravel() == pytest.approx(3)
    assert optimised[["variant", "against"]].iloc[0].tolist() == [
        "lock (kernel plain, optimisation O0)", "lock (kernel plain, optimisation O3)",
    ]  # fmt: skip
    assert optimised["rounds"].tolist() == [6, 6]
    kernel = time_ratios(runs, "kernel", "plain")
    assert kernel["estimate"].tolist() == pytest.approx([4, 4])


def test_strategies_may_differ_in_what_one_of_the_two_does_not_have() -> None:
    htm = [slower(grid(("htm",), (1,), budget=budget, **HTM), 2 + budget) for budget in (0, 5)]
    eigen = slower(grid(("htm",), (1,), budget=0, **HTM | {"kernel": "eigen"}), 9)
    runs = pd.concat([grid(("tf_lock",), (1,)), grid(("lock",), (1,), **PLAIN), *htm, eigen], ignore_index=True)
    over_lock = time_ratios(runs, "strategy", "lock")
    assert dict(zip(over_lock["variant"], over_lock["estimate"], strict=True)) == pytest.approx(
        {"tf_lock": 1 / 1, "htm (kernel plain, budget 0)": 2, "htm (kernel plain, budget 5)": 7}
    )  # both have kernels, so kernels must be equal
    over_tf_lock = time_ratios(runs, "strategy", "tf_lock")
    assert over_tf_lock["estimate"].tolist() == pytest.approx([1, 9, 2, 7])


def test_rounds_are_paired_and_those_without_a_time_left_out() -> None:
    runs = pd.concat([grid(("tf_lock",), (1,)), slower(grid(("nolock",), (1,)), 0.5)], ignore_index=True)
    runs.loc[(runs["strategy"] == "nolock") & (runs["round"] < 3), ["status", "loop_s"]] = ["failed", None]
    emulated = slower(grid(("htm",), (1,), budget=0, **HTM), float("nan"))
    (row,) = time_ratios(pd.concat([runs, emulated]), "strategy", "tf_lock").itertuples()
    assert (row.variant, row.rounds, row.estimate) == ("nolock", 4, pytest.approx(0.5))
    assert time_ratios(runs, "strategy", "lock").empty


def test_two_models_are_told_apart() -> None:
    models = [
        pd.concat([grid(("lock",), (1,), **of), slower(grid(("nolock",), (1,), **of), times)])
        for of, times in (({"model": "mnist_softmax"}, 2), ({"model": "mnist_deep", "dropout_keep": 0.5}, 3))
    ]
    ratios = time_ratios(pd.concat(models, ignore_index=True), "strategy", "lock")
    assert dict(zip(ratios["model"], ratios["estimate"], strict=True)) == pytest.approx(
        {"mnist_softmax": 2, "mnist_deep": 3}
    )


def test_two_specs_with_equal_factors_are_refused_by_their_campaign_and_round() -> None:
    """No run file leads to them; a database that somebody changed may hold them."""
    runs = grid(("lock",), (1,), 2)
    twice = pd.concat([runs, runs.tail(1).assign(uid="changed")], ignore_index=True)
    is_lock = twice["strategy"] == "lock"
    (campaign,) = set(twice["campaign_uid"])
    with pytest.raises(BadInput, match=f"Campaign '{campaign}' has two baselines .* in round 2; `tmflow db check`"):
        pair_by_round(twice, is_lock, ["threads"], "loop_s", "base_s")
