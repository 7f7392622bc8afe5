"""Predict the time of a step under each strategy from sizes, by the runs of other models and machines.

The model is a regression. The logarithm of a strategy's time over that of `lock` is a parabola in the logarithm of the
*density*: the elements that a step updates for each microsecond that it takes one worker. Where the density is small,
an update is a small part of its step and no strategy matters; where it is large, the update is most of the step. Each
number of workers has parabolas of its own, with and without a processor for each worker. The coefficients are shrunk
towards 0 (ridge regression; Hoerl and Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
Technometrics 12, 1970), so that few runs predict no difference.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmflow.advice.cases import LOCK, Case
from tmflow.analysis import stats
from tmflow.base.errors import BadInput
from tmflow.base.text import listed

SHRINKAGE = 0.3  # the penalty of the squared coefficients, in units of a case's squared error
MIN_CASES = 5  # of a strategy with a number of workers; others are not predicted
COVERED = 0.9  # the share of the held-out errors of each model that an error factor covers
ONE_WORKER = "one worker"  # in place of a strategy: the time of `lock` over that of one worker

Group = Literal["model", "machine"]


class Workers(NamedTuple):
    """A number of workers, and whether there are more of them than processors."""

    number: int
    oversubscribed: bool


@dataclass(frozen=True)
class Prediction:
    """A strategy's time of a step: microseconds, and over that of `lock` with as many workers.

    cases: from which it was learnt.
    """

    strategy: str
    us: float
    ratio: float
    cases: int


class CostModel:
    """The times of the strategies, fitted to cases."""

    def __init__(self, cases: Iterable[Case]) -> None:
        logs: dict[Workers, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
        for case in cases:
            of_workers = logs[Workers(case.workers, case.oversubscribed)]
            lock_us = math.exp(float(np.log(case.us[LOCK]).mean()))
            of_workers[ONE_WORKER].append((case.density, math.log(lock_us / case.alone_us)))
            for strategy, log in case.logs.items():
                if strategy != LOCK:
                    of_workers[strategy].append((case.density, log))
        self._curves = {
            workers: {name: _Curve(points) for name, points in of_workers.items() if len(points) >= MIN_CASES}
            for workers, of_workers in logs.items()
            if len(of_workers[ONE_WORKER]) >= MIN_CASES
        }

    @property
    def workers(self) -> list[Workers]:
        """The numbers of workers that it has learnt from."""
        return sorted(self._curves)

    def predict(self, elements: float, alone_us: float, workers: Workers) -> list[Prediction]:
        """The strategies of which there are cases enough, the fastest first.

        elements: that a step updates. alone_us: of a step of one worker. Raises BadInput for values that are not
        above 0, and for numbers of workers of which there is no case.
        """
        if not (elements > 0 and alone_us > 0):
            raise BadInput(f"{elements:g} elements and {alone_us:g} us of a step should both be above 0.")
        if workers not in self._curves:
            raise BadInput(f"no runs compare strategies with {_named(workers)}; there are some with {self._numbers()}.")
        density, curves = elements / alone_us, self._curves[workers]
        lock_us = alone_us * math.exp(curves[ONE_WORKER].at(density))
        predictions = [
            Prediction(name, lock_us * math.exp(log), math.exp(log), curve.cases)
            for name, curve in curves.items()
            if name != ONE_WORKER
            for log in [curve.at(density)]
        ]
        predictions.append(Prediction(LOCK, lock_us, 1.0, curves[ONE_WORKER].cases))
        return sorted(predictions, key=lambda prediction: prediction.ratio)

    def _numbers(self) -> str:
        return listed([_named(workers) for workers in self.workers]) or "none"


@dataclass(frozen=True)
class HeldOut:
    """A case that was predicted from others: the advised strategy and its time over that of the fastest measured.

    ratio: 1 with an empty interval if these are the same; the fastest of several is also the luckiest, so the ratio is
    rather too large. errors: by strategy, the logarithm of the predicted over the measured ratio to `lock`. time_error:
    that of the predicted over the measured time under the advised strategy.
    """

    case: Case
    advised: str
    ratio: stats.Interval
    errors: dict[str, float]
    time_error: float

    @property
    def pair_errors(self) -> list[float]:
        """The same of the ratios of the advised strategy to each other one but `lock`."""
        of_advised = self.errors.get(self.advised, 0.0)
        return [of_advised - error for name, error in self.errors.items() if name != self.advised]

    @property
    def regret(self) -> float:
        """How much longer a step takes under the advised strategy than under the fastest, as a share."""
        return self.ratio.estimate - 1


def held_out(cases: Sequence[Case], by: Group) -> Iterator[HeldOut]:
    """Predict the cases of each model, or machine, by those of the others; a case without others is left out."""
    for group in dict.fromkeys(getattr(case, by) for case in cases):
        fitted = CostModel(case for case in cases if getattr(case, by) != group)
        for case in cases:
            if getattr(case, by) == group and Workers(case.workers, case.oversubscribed) in fitted.workers:
                yield _compare(case, fitted)


def error_factor(predictions: Iterable[HeldOut], errors_of: Callable[[HeldOut], Iterable[float]]) -> float | None:
    """The smallest factor within which `COVERED` of the errors of every single model were; None without any.

    errors_of: the logarithms of a prediction (`of_ratios`, `of_pairs`, `of_times`). The cases of a model are alike, so
    the quantile of all cases would be that of the model with most of them, and not that of a new one.
    """
    by_model: dict[str, list[float]] = defaultdict(list)
    for one in predictions:
        by_model[one.case.model].extend(map(abs, errors_of(one)))
    quantiles = [float(np.quantile(errors, COVERED)) for errors in by_model.values() if errors]
    return math.exp(max(quantiles)) if quantiles else None


def of_ratios(one: HeldOut) -> Iterable[float]:
    """The errors of the ratios to `lock`."""
    return one.errors.values()


def of_pairs(one: HeldOut) -> Iterable[float]:
    """The errors of the ratios of the advised strategy to others."""
    return one.pair_errors


def of_times(one: HeldOut) -> Iterable[float]:
    """The error of the time under the advised strategy."""
    return [one.time_error]


def regret_of(cases: Iterable[Case], strategy: str) -> list[float]:
    """How much longer a step takes under one strategy than under the fastest, in each case that has it."""
    return [math.exp(case.logs[strategy] - case.logs[case.fastest]) - 1 for case in cases if strategy in case.us]


def nearest(cases: Iterable[Case], elements: float, alone_us: float, n: int) -> list[Case]:
    """The cases whose elements and time of a step are nearest, by the distance of the logarithms."""
    return sorted(
        cases, key=lambda case: math.hypot(math.log(case.elements / elements), math.log(case.alone_us / alone_us))
    )[:n]


class _Curve:
    """A parabola in the logarithm of the density; beyond its points, where it means nothing, the value at the end."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self.cases = len(points)
        densities, logs = zip(*points, strict=True)
        self._ends = min(densities), max(densities)
        features = _features(densities)
        # Not by scikit-learn: its import takes a second, and can deadlock with that of Altair in another thread.
        normal = features.T @ features + SHRINKAGE * np.eye(features.shape[1])
        self._coefficients = np.linalg.solve(normal, features.T @ np.array(logs))

    def at(self, density: float) -> float:
        """The logarithm of the ratio."""
        low, high = self._ends
        return float((_features([min(max(density, low), high)]) @ self._coefficients)[0])


def _features(densities: Sequence[float]) -> NDArray[np.float64]:
    x = np.log10(densities)
    return np.stack([np.ones_like(x), x, x * x], axis=1)


def _compare(case: Case, fitted: CostModel) -> HeldOut:
    workers = Workers(case.workers, case.oversubscribed)
    predicted = [one for one in fitted.predict(case.elements, case.alone_us, workers) if one.strategy in case.us]
    advised = predicted[0]
    ratio = stats.ratio_interval(case.us[advised.strategy], case.us[case.fastest])
    errors = {one.strategy: math.log(one.ratio) - case.logs[one.strategy] for one in predicted if one.strategy != LOCK}
    time_error = math.log(advised.us) - float(np.log(case.us[advised.strategy]).mean())
    return HeldOut(case, advised.strategy, ratio, errors, time_error)


def _named(workers: Workers) -> str:
    number = f"{workers.number} worker{'s' if workers.number > 1 else ''}"
    return f"{number} on fewer processors" if workers.oversubscribed else number
