"""The cost model: it finds a law that it was given, predicts held-out cases without them, and says what it lacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tmflow.advice.cases import Case
from tmflow.advice.cost_model import (
    CostModel,
    HeldOut,
    Workers,
    error_factor,
    held_out,
    nearest,
    of_pairs,
    of_ratios,
    of_times,
    regret_of,
)
from tmflow.analysis.stats import Interval
from tmflow.base.errors import BadInput

TWO = Workers(2, oversubscribed=False)
LAWS: dict[str, Callable[[float], float]] = {  # the logarithm of the time over that of lock, by log10 of the density
    "lock": lambda _: 0.0,
    "spin": lambda x: 0.3 - 0.2 * x,
    "striped": lambda x: 0.1 * x - 0.05 * x * x,
}


def case(
    density: float,
    *,
    model: str = "small",
    machine: str = "box",
    workers: Workers = TWO,
    laws: dict[str, Callable[[float], float]] = LAWS,
) -> Case:
    """A case whose strategies obey the laws; `lock` takes half as long as one worker."""
    x, noise = math.log10(density), np.array([0.9, 1.0, 1 / 0.9])
    us = {name: 5 * noise * math.exp(law(x)) for name, law in laws.items()}
    return Case("", machine, model, "native", *workers, 10 * density, 10.0, us)


def cases_of_law(n: int = 300, **changes: str) -> list[Case]:
    return [case(10**x, **changes) for x in np.linspace(0, 4, n)]


def test_the_law_of_the_cases_is_found() -> None:
    predicted = {one.strategy: one for one in CostModel(cases_of_law()).predict(1000, 10, TWO)}
    for name, law in LAWS.items():
        assert predicted[name].ratio == pytest.approx(math.exp(law(2)), rel=0.01)
        assert predicted[name].us == pytest.approx(5 * math.exp(law(2)), rel=0.01)
        assert predicted[name].cases == 300
    assert list(predicted) == ["spin", "striped", "lock"]  # the fastest first


def test_beyond_its_cases_the_prediction_is_that_of_the_end() -> None:
    model = CostModel(cases_of_law())
    end, beyond = (model.predict(10 * density, 10, TWO) for density in (1e4, 1e9))
    assert beyond == end


def test_few_cases_predict_less_of_a_difference() -> None:
    few, many = (CostModel(cases_of_law(n)).predict(1000, 10, TWO)[0].ratio for n in (5, 300))
    assert many < few < 1


def test_a_strategy_with_too_few_cases_is_not_predicted() -> None:
    without = {name: law for name, law in LAWS.items() if name != "spin"}
    cases = [*(case(10, laws=without) for _ in range(10)), *(case(10) for _ in range(4))]
    assert {one.strategy for one in CostModel(cases).predict(1000, 10, TWO)} == {"lock", "striped"}


def test_numbers_of_workers_that_were_not_measured_are_named() -> None:
    model = CostModel(cases_of_law() + [case(10, workers=Workers(8, oversubscribed=True)) for _ in range(5)])
    sentence = (
        "no runs compare strategies with 4 workers; there are some with 2 workers and 8 workers on fewer processors."
    )
    with pytest.raises(BadInput, match=sentence):
        model.predict(1000, 10, Workers(4, oversubscribed=False))
    with pytest.raises(BadInput, match="with 2 workers on fewer processors; there are some"):
        model.predict(1000, 10, Workers(2, oversubscribed=True))


@pytest.mark.parametrize(("elements", "alone_us"), [(0, 10), (10, 0), (-1, 10)])
def test_sizes_of_nothing_are_refused(elements: float, alone_us: float) -> None:
    with pytest.raises(BadInput, match="should both be above 0"):
        CostModel(cases_of_law()).predict(elements, alone_us, TWO)


def test_a_model_is_predicted_without_its_own_cases() -> None:
    """The cases of one model obey the opposite law, so who predicts from them, too, has half of the error."""
    opposite = {name: (lambda x, law=law: -law(x)) for name, law in LAWS.items()}
    others = [case(10**x, model="other", laws=opposite) for x in np.linspace(0, 4, 301)]
    middle = next(
        one
        for one in held_out([*cases_of_law(301), *others], "model")
        if one.case.model == "other" and one.case.density == pytest.approx(100)
    )
    assert middle.errors["spin"] == pytest.approx(2 * LAWS["spin"](2), rel=0.02)
    assert middle.advised == "spin"
    assert middle.case.fastest == "lock"
    assert middle.regret == pytest.approx(math.exp(0.1) - 1, rel=0.01)
    assert middle.ratio.low <= middle.ratio.estimate <= middle.ratio.high


def test_a_machine_is_predicted_without_its_own_cases() -> None:
    cases = cases_of_law(50) + cases_of_law(50, machine="another")
    assert len(list(held_out(cases, "machine"))) == 100
    assert list(held_out(cases, "model")) == []  # there is only one


def checked_with(errors: list[dict[str, float]], model: str = "small") -> list[HeldOut]:
    """Held-out cases with these errors; `spin` was advised."""
    return [HeldOut(case(10, model=model), "spin", Interval(1, 1, 1, 3), of_one, 0.0) for of_one in errors]


def test_the_error_is_that_of_nine_in_ten_predictions() -> None:
    checked = checked_with([{"spin": sign * n / 10} for n, sign in zip(range(11), [1, -1] * 6, strict=False)])
    assert error_factor(checked, of_ratios) == pytest.approx(math.exp(0.9))
    assert error_factor([], of_ratios) is None


def test_the_error_is_that_of_the_model_that_is_predicted_worst() -> None:
    """Many cases of one model do not hide the few of another."""
    many, few = checked_with([{"spin": 0.1}] * 99), checked_with([{"spin": 0.7}], model="another")
    assert error_factor([*many, *few], of_ratios) == pytest.approx(math.exp(0.7))


def test_the_error_between_two_strategies_is_that_of_their_ratio() -> None:
    checked = checked_with([{"spin": 0.3, "striped": 0.1}])
    assert error_factor(checked, of_pairs) == pytest.approx(math.exp(0.2))
    assert error_factor(checked_with([{"spin": 0.3}]), of_pairs) is None


def test_the_error_of_times_is_that_of_the_advised_strategy() -> None:
    """The cases of one model take twice as long with two workers as the others say, under every strategy."""
    slow = [replace(one, model="slow", us={name: 2 * us for name, us in one.us.items()}) for one in cases_of_law(9)]
    checked = [one for one in held_out([*cases_of_law(), *slow], "model") if one.case.model == "slow"]
    assert error_factor(checked, of_ratios) == pytest.approx(1, abs=0.05)
    assert error_factor(checked, of_times) == pytest.approx(2, rel=0.05)


def test_the_regret_of_one_strategy_is_over_the_fastest() -> None:
    assert regret_of([case(100.0)], "lock") == [pytest.approx(math.exp(0.1) - 1)]
    assert regret_of([case(100.0)], "spin") == [0]
    assert regret_of([case(100.0)], "stm") == []


def test_the_nearest_cases_have_like_sizes_and_times() -> None:
    near, far = case(100.0), case(1e5)
    assert nearest([far, near], 1100, 9, 1) == [near]
