"""A forecast in sentences, which say no more than its error allows."""

from __future__ import annotations

from collections.abc import Iterator

from tmflow.advice.cases import LOCK
from tmflow.advice.cost_model import COVERED, Prediction, Workers
from tmflow.advice.forecast import DENSITY, Forecast, Uncovered
from tmflow.analysis.stats import Bounds
from tmflow.base.text import listed, several, workers

UNCHECKED = "Too few cases of other models check the predictions, so their error is unknown."


def name_workers(number: Workers) -> str:
    """2 workers, or 4 workers on fewer processors"""
    return workers(number.number) + (" on fewer processors" if number.oversubscribed else "")


def bounds_of(estimate: float, error: float | None) -> Bounds | None:
    """The error range: the prediction divided and multiplied by the factor of its error; None if that is unknown."""
    return None if error is None else Bounds(estimate / error, estimate * error)


def advice_sentences(forecast: Forecast) -> Iterator[str]:
    """The fastest by the predictions, first of all whether it differs from `lock` at all."""
    best, lock = forecast.best, forecast.lock
    if len(forecast.ranking) == 1:
        yield f"Only {LOCK} can be predicted: there are too few cases of the other strategies."
        return
    if forecast.error is None:
        yield f"{best.strategy} has the smallest predicted time."
        yield UNCHECKED
        return
    if best == lock:
        yield f"{LOCK} has the smallest predicted time: no strategy is predicted to be faster."
    elif forecast.is_different(best, lock):
        yield f"{best.strategy} is predicted to be faster than {LOCK}: {_over_lock(best, forecast.error)}."
    else:
        yield f"No strategy is predicted to be faster than {LOCK} by more than the model's error."
        yield f"{best.strategy} has the smallest predicted time: {_over_lock(best, forecast.error)}."
    others = [one.strategy for one in forecast.equals if one != lock or best == lock]
    if others:
        yield f"No difference between {best.strategy} and {listed(others)} is predicted that is larger than the error."
    slower = [one.strategy for one in forecast.ranking[1:] if one != lock and forecast.is_different(best, one)]
    if slower:
        yield f"{best.strategy} is predicted to be faster than {listed(slower)}."


def workers_sentence(forecast: Forecast) -> str:
    """Whether the workers take less time for a step than one worker: wall time over the steps of all workers."""
    best, number = forecast.best, name_workers(forecast.workers)
    ratio = best.us / forecast.alone_us
    bounds = bounds_of(ratio, forecast.time_error)
    predicted = (
        f"With {number} a step under {best.strategy} is predicted to take {_number(best.us)} µs, "
        f"{_times(ratio, bounds)} the {_number(forecast.alone_us)} µs of one worker"
    )
    if bounds is None:
        return f"{predicted}. {UNCHECKED}"
    if bounds.high < 1:
        return f"{predicted}: they help."
    if bounds.low > 1:
        return f"{predicted}: they do harm."
    return f"{predicted}: whether they help is not decided, because the error range includes 1."


def error_sentence(forecast: Forecast) -> str:
    """How the predictions were checked, and their error."""
    if forecast.error is None or forecast.time_error is None:
        return UNCHECKED
    of = f"{several(forecast.models, 'model')} on {several(forecast.machines, 'machine')}"
    return (
        f"Error ranges are no confidence intervals: {several(len(forecast.checked), 'measured case')} of {of} were "
        f"predicted from the cases of the other models. Of each model, {100 * COVERED:g} % of the ratios were within a "
        f"factor of {forecast.error:.3g}, and of the times of the fastest within {forecast.time_error:.3g}."
    )


def left_out_sentence(forecast: Forecast) -> str | None:
    """Which measured strategies are not predicted; None if all are."""
    names = forecast.left_out
    return f"Not predicted, for lack of cases at such a density: {listed(names)}." if names else None


def uncovered_sentence(sizes: list[Uncovered]) -> str:
    """That the sizes lie outside those of the cases, so that no error range covers the prediction."""
    outside = [f"{_number(one.value)} {one.name} (cases: {_range(one.cases)})" for one in sizes]
    density = [_number(one.nearest) for one in sizes if one.name == DENSITY]
    instead = f" It is computed for {density[0]} {DENSITY}." if density else ""
    return (
        f"No measured case has such sizes: {listed(outside)}. The error of the prediction may be larger than its "
        f"error range.{instead}"
    )


def _range(bounds: Bounds) -> str:
    return f"{_number(bounds.low)} to {_number(bounds.high)}"


def _over_lock(one: Prediction, error: float) -> str:
    """its step takes 0.75 times (error range 0.51 to 1.12) that of lock"""
    return f"its step takes {_times(one.ratio, bounds_of(one.ratio, error))} that of {LOCK}"


def _times(ratio: float, bounds: Bounds | None) -> str:
    return f"{_number(ratio)} times" + ("" if bounds is None else f" (error range {_range(bounds)})")


def _number(value: float) -> str:
    """Three digits, but whole numbers in full."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
