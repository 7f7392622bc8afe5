"""A forecast: what it says is within its error, and where the cases do not reach, it says so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tmflow.advice.cases import Case
from tmflow.advice.cost_model import Workers
from tmflow.advice.forecast import Forecast, Forecaster
from tmflow.advice.forecast_text import (
    UNCHECKED,
    advice_sentences,
    error_sentence,
    left_out_sentence,
    uncovered_sentence,
    workers_sentence,
)

TWO = Workers(2, oversubscribed=False)
DENSITIES = [float(density) for density in np.geomspace(1, 1000, 40)]
SPREAD = np.array([0.95, 1.0, 1 / 0.95])


def cases_with(
    ratios: Mapping[str, float], models: tuple[str, ...] = ("a", "b"), lock_us: float = 6.0, error: float = 0.0
) -> list[Case]:
    """Cases whose strategies take these multiples of the time of `lock`; a step of one worker takes 10 µs.

    error: by how much the logarithms of the ratios are higher in one model, and lower in the next.
    """
    return [
        Case(
            "", f"box-{model}", model, "native", *TWO, 10 * density, 10.0,
            {"lock": lock_us * SPREAD}
            | {name: lock_us * SPREAD * ratio * math.exp(error * (-1) ** at) for name, ratio in ratios.items()},
        )
        for at, model in enumerate(models)
        for density in DENSITIES
    ]  # fmt: skip


def forecast_of(cases: list[Case], elements: float = 100.0, alone_us: float = 10.0) -> Forecast:
    return Forecaster(cases).forecast(elements, alone_us, TWO)


def said(forecast: Forecast) -> str:
    return " ".join(advice_sentences(forecast))


def test_a_difference_beyond_the_error_is_an_advice() -> None:
    forecast = forecast_of(cases_with({"spin": 0.5, "striped": 2.0}))
    assert said(forecast).startswith("spin is predicted to be faster than lock: its step takes 0.50")
    assert said(forecast).endswith("spin is predicted to be faster than striped.")
    assert forecast.equals == []


def test_a_difference_within_the_error_is_none() -> None:
    """The models disagree by a factor of 1.8, so 0.8 times the time of `lock` says nothing."""
    forecast = forecast_of(cases_with({"spin": 0.8, "striped": 3.0}, error=0.3))
    assert forecast.error is not None
    assert 1.6 < forecast.error < 2.0
    first, second, *_ = advice_sentences(forecast)
    assert first == "No strategy is predicted to be faster than lock by more than the model's error."
    assert second.startswith("spin has the smallest predicted time: its step takes 0.8")
    assert {one.strategy for one in forecast.equals} == {"lock"}


def test_lock_may_be_the_fastest() -> None:
    forecast = forecast_of(cases_with({"spin": 1.01, "striped": 3.0}, error=0.1))
    assert forecast.best == forecast.lock
    assert said(forecast) == (
        "lock has the smallest predicted time: no strategy is predicted to be faster. No difference between lock and "
        "spin is predicted that is larger than the error. lock is predicted to be faster than striped."
    )


def test_one_model_checks_nothing() -> None:
    forecast = forecast_of(cases_with({"spin": 0.5, "striped": 2.0}, models=("a",)))
    assert said(forecast) == f"spin has the smallest predicted time. {UNCHECKED}"
    assert forecast.equals == forecast.ranking[1:]  # nothing is known to differ
    assert error_sentence(forecast) == UNCHECKED
    assert workers_sentence(forecast).endswith(UNCHECKED)


def test_the_error_has_its_cases_models_and_machines() -> None:
    sentence = error_sentence(forecast_of(cases_with({"spin": 0.5, "striped": 2.0}, models=("a", "b", "c"))))
    assert sentence.startswith("Error ranges are no confidence intervals: 120 measured cases of 3 models on 3 machines")
    assert "Of each model, 90 % of the ratios were within a factor of 1" in sentence


def test_workers_help_or_not() -> None:
    ratios = {"spin": 0.9, "striped": 2.0}
    assert workers_sentence(forecast_of(cases_with(ratios, lock_us=5))).endswith("the 10 µs of one worker: they help.")
    assert workers_sentence(forecast_of(cases_with(ratios, lock_us=50))).endswith(": they do harm.")
    undecided = workers_sentence(forecast_of(cases_with(ratios, lock_us=11, error=0.3)))
    assert undecided.endswith("whether they help is not decided, because the error range includes 1.")


def test_sizes_beyond_the_cases_are_named() -> None:
    cases = cases_with({"spin": 0.5, "striped": 2.0})
    assert forecast_of(cases).uncovered == []
    sentence = uncovered_sentence(forecast_of(cases, elements=1e6, alone_us=10).uncovered)
    assert "1,000,000 elements that a step updates (cases: 10 to 10,000)" in sentence
    assert "100,000 elements per µs (cases: 1 to 1,000)" in sentence
    assert "It is computed for 1,000 elements per µs." in sentence
    slow = uncovered_sentence(forecast_of(cases, elements=2000, alone_us=20).uncovered)
    assert "20 µs of a step of one worker (cases: 10 to 10)" in slow
    assert "It is computed" not in slow


def without(case: Case, *names: str) -> Case:
    return replace(case, us={name: us for name, us in case.us.items() if name not in names})


def test_a_strategy_is_left_out_where_its_cases_do_not_reach() -> None:
    cases = cases_with({"spin": 0.5, "striped": 2.0})
    dense = [case if case.density > 50 else without(case, "spin") for case in cases]
    assert [one.strategy for one in forecast_of(dense, elements=1000).ranking] == ["spin", "lock", "striped"]
    assert left_out_sentence(forecast_of(dense, elements=1000)) is None
    sparse = forecast_of(dense, elements=100)
    assert [one.strategy for one in sparse.ranking] == ["lock", "striped"]
    assert left_out_sentence(sparse) == "Not predicted, for lack of cases at such a density: spin."


def test_lock_alone_is_no_ranking() -> None:
    first, *others = cases_with({"spin": 0.5, "striped": 2.0})[:5]
    assert said(forecast_of([first, *(without(case, "spin", "striped") for case in others)], elements=10)) == (
        "Only lock can be predicted: there are too few cases of the other strategies."
    )


def test_the_nearest_cases_have_the_same_number_of_workers() -> None:
    cases = cases_with({"spin": 0.5, "striped": 2.0})
    four = [replace(case, workers=4) for case in cases]
    assert {case.workers for case in forecast_of([*four, *cases]).nearest(3)} == {2}
