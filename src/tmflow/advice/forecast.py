"""A forecast: the predicted ranking of the strategies for sizes, with what is known of its error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tmflow.advice.cases import LOCK, Case
from tmflow.advice.cost_model import (
    CostModel,
    HeldOut,
    Prediction,
    Workers,
    error_factor,
    held_out,
    nearest,
    of_pairs,
    of_ratios,
    of_times,
)
from tmflow.analysis.stats import Bounds
from tmflow.platform.facts import slug_of

DENSITY = "elements per µs"


class Uncovered(NamedTuple):
    """A size that lies outside those of the cases: its name and unit, its value, and the smallest and largest."""

    name: str
    value: float
    cases: Bounds

    @property
    def nearest(self) -> float:
        """The end of the range of the cases that is nearer to the value."""
        return self.cases.low if self.value < self.cases.low else self.cases.high


@dataclass(frozen=True)
class Forecast:
    """The ranking, the fastest first, and the cases with this number of workers that it was learnt from.

    elements: that a step updates. alone_us: microseconds of a step of one worker. checked: the cases, each predicted
    from those of other models; empty if there is only one model.
    """

    elements: float
    alone_us: float
    workers: Workers
    ranking: list[Prediction]
    cases: list[Case]
    checked: list[HeldOut]

    @property
    def best(self) -> Prediction:
        """The fastest by the predictions."""
        return self.ranking[0]

    @cached_property
    def error(self) -> float | None:
        """The factor within which nine in ten of the checked ratios to `lock` of each model were; None without any."""
        return error_factor(self.checked, of_ratios)

    @cached_property
    def pair_error(self) -> float | None:
        """The same factor of the ratios of the fastest by the predictions to the strategies other than `lock`."""
        return error_factor(self.checked, of_pairs)

    @cached_property
    def time_error(self) -> float | None:
        """The same factor of the times of the fastest, in microseconds."""
        return error_factor(self.checked, of_times)

    def is_different(self, one: Prediction, other: Prediction) -> bool:
        """Whether the ratio of two predicted times is larger than its error; never if that is unknown."""
        ratio = one.us / other.us
        error = self.error if LOCK in (one.strategy, other.strategy) else self.pair_error
        return error is not None and max(ratio, 1 / ratio) > error

    @property
    def lock(self) -> Prediction:
        """The prediction of `lock`."""
        return next(one for one in self.ranking if one.strategy == LOCK)

    @property
    def equals(self) -> list[Prediction]:
        """The others whose difference to the fastest is not larger than the error."""
        return [one for one in self.ranking[1:] if not self.is_different(self.best, one)]

    @property
    def left_out(self) -> list[str]:
        """The measured strategies of which there are too few cases, or none at such a density."""
        ranked = {one.strategy for one in self.ranking}
        return sorted({name for case in self.cases for name in case.us} - ranked)

    @property
    def models(self) -> int:
        """Of how many models cases were checked."""
        return len({one.case.model for one in self.checked})

    @property
    def machines(self) -> int:
        """On how many machines; the runs of a machine may come from several contributions."""
        return len({slug_of(one.case.machine) for one in self.checked})

    @property
    def uncovered(self) -> list[Uncovered]:
        """The sizes that lie outside those of the cases."""
        sizes = {
            "elements that a step updates": (self.elements, [case.elements for case in self.cases]),
            "µs of a step of one worker": (self.alone_us, [case.alone_us for case in self.cases]),
            DENSITY: (self.elements / self.alone_us, [case.density for case in self.cases]),
        }
        ranges = {name: (value, Bounds(min(of_cases), max(of_cases))) for name, (value, of_cases) in sizes.items()}
        return [Uncovered(name, value, of) for name, (value, of) in ranges.items() if not of.low <= value <= of.high]

    def nearest(self, n: int) -> list[Case]:
        """The measured cases with the most similar sizes."""
        return nearest(self.cases, self.elements, self.alone_us, n)


class Forecaster:
    """A cost model with the cases that it was fitted to, and its check by models that it did not know."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.cases = list(cases)
        self.model = CostModel(self.cases)
        self._checked = list(held_out(self.cases, "model"))

    @property
    def workers(self) -> Sequence[Workers]:
        """The numbers of workers that it can predict."""
        return self.model.workers

    def forecast(self, elements: float, alone_us: float, workers: Workers) -> Forecast:
        """Predict the strategies for these sizes; beyond the densities of all cases, for the nearest density.

        A strategy is left out if its own cases do not reach that density. Raises BadInput as `CostModel.predict`.
        """
        cases = [case for case in self.cases if _workers(case) == workers]
        densities = [case.density for case in cases] or [elements / alone_us]
        density = min(max(elements / alone_us, min(densities)), max(densities))
        reaching = {
            name
            for name in {name for case in cases for name in case.us}
            for of_strategy in [[case.density for case in cases if name in case.us]]
            if min(of_strategy) <= density <= max(of_strategy)
        }
        predicted = self.model.predict(elements, alone_us, workers)
        ranking = [one for one in predicted if one.strategy in reaching]
        checked = [one for one in self._checked if _workers(one.case) == workers]
        return Forecast(elements, alone_us, workers, ranking, cases, checked)


def _workers(case: Case) -> Workers:
    return Workers(case.workers, case.oversubscribed)
