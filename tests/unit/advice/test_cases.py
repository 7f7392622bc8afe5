"""The cases of a cost model: which runs are compared, and what a step updates."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.support.frames import ended, grid, run
from tests.support.own_runs import ARRAYS, KERAS, own_spec
from tmflow.advice.cases import Case, cases_of, guaranteeing, updated_elements
from tmflow.spec.models import factors_of
from tmflow.spec.strategies import parameters_of

WORKERS = (1, 2, 8)


def runs_of(
    strategy: str, us: float, *, workers: tuple[int, ...] = WORKERS, rounds: int = 3, **changes: Any
) -> pd.DataFrame:
    """Runs of a strategy with its usual parameters: `us` microseconds a step in round 1, twice that in round 2, ..."""
    factors = {"driver": "native", "iterations": 1000, **parameters_of(strategy), **changes}
    return pd.DataFrame(
        [
            run(strategy=strategy, threads=number, round=r, loop_s=r * us * 1e-3, **factors)
            for number in workers
            for r in range(1, rounds + 1)
        ]
    )


def of_three(**changes: Any) -> pd.DataFrame:
    """`lock` takes 8, `spin` 4 and `striped` 2 microseconds in round 1."""
    table = [runs_of(name, us, **changes) for name, us in {"lock": 8, "spin": 4, "striped": 2}.items()]
    return pd.concat(table, ignore_index=True)


def by_workers(cases: list[Case]) -> dict[int, Case]:
    return {case.workers: case for case in cases}


def test_a_case_has_the_times_of_each_strategy_by_round() -> None:
    cases = by_workers(cases_of(of_three()))
    assert sorted(cases) == list(WORKERS)
    case = cases[2]
    assert {name: us.tolist() for name, us in case.us.items()} == {
        "lock": pytest.approx([8, 16, 24]),
        "spin": pytest.approx([4, 8, 12]),
        "striped": pytest.approx([2, 4, 6]),
    }
    assert (case.machine, case.model, case.driver, case.elements) == ("box-1", "mnist_softmax", "native", 7850)
    assert case.alone_us == pytest.approx(8 * 6 ** (1 / 3))  # of lock, the geometric mean of its rounds
    assert case.density == pytest.approx(7850 / case.alone_us)
    assert case.fastest == "striped"
    assert case.logs["striped"] == pytest.approx(-1.386294)  # log(1/4)


def test_more_workers_than_processors_are_oversubscribed() -> None:
    assert {case.workers: case.oversubscribed for case in cases_of(of_three())} == {1: False, 2: False, 8: True}


def test_a_strategy_has_the_times_of_its_fastest_variant() -> None:
    slow = runs_of("striped", 100, block=16)
    case = by_workers(cases_of(pd.concat([of_three(), slow], ignore_index=True)))[2]
    assert case.us["striped"].tolist() == pytest.approx([2, 4, 6])


def test_only_common_rounds_are_compared() -> None:
    runs = of_three(rounds=4)
    ended(runs, (runs["strategy"] == "spin") & (runs["round"] == 2), "failed", "it was stopped")
    case = by_workers(cases_of(runs))[2]
    assert case.us["lock"].tolist() == pytest.approx([8, 24, 32])


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 2},
        {"workers": (2, 8)},  # nothing says what one worker takes
        {"measures": "full"},
        {"kernel": "eigen"},
        {"evidence": "simulated"},
    ],
)
def test_other_runs_make_no_case(changes: dict[str, Any]) -> None:
    assert cases_of(of_three(**changes)) == []


def test_numbers_of_steps_may_differ() -> None:
    runs = of_three()
    two = runs["threads"] == 2
    runs.loc[two, ["iterations", "loop_s"]] = runs.loc[two, ["iterations", "loop_s"]] * 2
    assert by_workers(cases_of(runs))[2].us["spin"].tolist() == pytest.approx([4, 8, 12])


OWN = {"model": "own_model", "dataset": "own"}


def test_each_model_of_a_user_is_a_model() -> None:
    runs = [of_three(**{**OWN, **KERAS, "architecture": digit * 64}) for digit in "ab"]
    cases = cases_of(pd.concat(runs, ignore_index=True))
    assert {case.model for case in cases} == {"own_model aaaaaaaa", "own_model bbbbbbbb"}
    assert {case.description for case in cases} == {"6 variables of 403 elements in all, batch 4, steps_per_call 16"}


def test_updates_without_a_model_make_no_case() -> None:
    assert cases_of(of_three(**OWN, **ARRAYS)) == []


def test_two_strategies_make_no_case() -> None:
    runs = of_three()
    assert cases_of(runs[runs["strategy"] != "spin"].reset_index(drop=True)) == []
    assert cases_of(runs[runs["strategy"] != "lock"].reset_index(drop=True)) == []


def test_a_strategy_that_loses_updates_is_not_compared() -> None:
    runs = pd.concat([of_three(), runs_of("nolock", 1)], ignore_index=True)
    assert all("nolock" not in case.us for case in cases_of(runs))


def test_configurations_are_cases_of_their_own() -> None:
    runs = pd.concat([of_three(), of_three(batch=10)], ignore_index=True)
    assert [case.description for case in cases_of(runs) if case.workers == 2] == ["batch 100", "batch 10"]


@pytest.mark.parametrize(
    ("model", "elements"),
    [
        ("sparse_logistic", 5 * 16 * 10),  # the features of five examples, with a weight for each class
        ("matrix_factorisation", 5 * 2 * 16),
        ("skipgram", 5 * (2 + 5) * 16),
    ],
)
def test_a_step_updates_the_rows_of_its_examples(model: str, elements: int) -> None:
    factors = {"model": model, "dataset": "synthetic", "batch": 5, **factors_of(model)}
    runs = pd.DataFrame([run(strategy="lock", driver="native", **parameters_of("lock"), **factors)])
    assert updated_elements(runs).tolist() == [elements]


def test_a_step_updates_the_rows_that_the_shapes_of_an_own_model_have() -> None:
    runs = pd.DataFrame([own_spec(ARRAYS, shapes="500x4:3,10").model_dump() | {"uid": "one"}])
    assert updated_elements(runs).tolist() == [22]


def test_a_step_updates_all_variables_of_other_models() -> None:
    assert updated_elements(grid(strategies=("tf_lock",), threads=(1,), rounds=1, matrix=100)).tolist() == [1010]


@pytest.mark.parametrize(
    ("variant", "guaranteed"),
    [
        ({"strategy": "lock"}, "tensor"),
        ({"strategy": "lock", "chunk": 64}, "block"),
        ({"strategy": "htm", "chunk": 0}, "tensor"),
        ({"strategy": "striped"}, "block"),
        ({"strategy": "adaptive", "promise": "block"}, "block"),
        ({"strategy": "adaptive"}, "tensor"),
    ],
)
def test_a_variant_counts_for_what_it_guarantees(variant: dict[str, Any], guaranteed: str) -> None:
    runs = pd.DataFrame([run(driver="native", **parameters_of(variant["strategy"]) | variant)])
    assert len(guaranteeing(runs, "element")) == len(guaranteeing(runs, "block")) == 1
    assert len(guaranteeing(runs, "tensor")) == (guaranteed == "tensor")


def test_strategies_that_are_not_compared_guarantee_nothing_here() -> None:
    runs = pd.concat([of_three(), runs_of("nolock", 1)], ignore_index=True)
    assert set(guaranteeing(runs, "element")["strategy"]) == {"lock", "spin", "striped"}
    assert guaranteeing(runs.iloc[:0], "block").empty


def test_times_that_are_none_make_no_case() -> None:
    runs = of_three()
    runs.loc[runs["strategy"] == "spin", "loop_s"] = 0
    assert cases_of(runs) == []
