"""Variance components of the log time, between rounds and between the trials of a round, and what repeats buy.

All components are standard deviations of a log: 0.02 is about 2 % of the time. They are moment estimates after
Henderson, Biometrics 9 (1953) 226, pooled over the points of an experiment; a negative variance is reported as 0.

- With repeats (his method I, of nested samples): the trials of a round spread around their mean, and the means of the
  rounds around that of their point. What a round does to one point alone counts as between rounds.
- Without repeats (his method III), a point has one trial in a round. The additive model log time = point + round +
  residual is fitted by least squares, and the residual stands for the trials. What a round does to one point alone,
  which repeats do not reduce, counts as between trials. So what repeats buy is overestimated.

The same is computed for paired log ratios: a trial against that of the experiment's first variant in the same round,
with the same repeat and the same other factors. What a round does to all points alike cancels out in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.noise import POINTS
from tmflow.analysis.run_table import ROUND, VARIANT, numbered
from tmflow.analysis.variants import ordered_variants, variants

Method = Literal["repeats", "residuals"]
EXPERIMENT = ("platform", "experiment", "scale", "definition_sha256")
REPEATS = (1, 2, 4)  # for which a standard error is predicted

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Components(NamedTuple):
    """Standard deviations between rounds and between trials; `between` is None where it is not separable."""

    method: Method
    between: float | None
    within: float

    def of_round(self, repeats: int) -> float:
        """The predicted standard error of a round's value, the average of this many repeats."""
        return math.sqrt((self.between or 0.0) ** 2 + self.within**2 / repeats)


class Variance(NamedTuple):
    """The components of an experiment; None if too few trials share points and rounds."""

    points: int
    rounds: int
    trials: int
    times: Components | None
    ratios: Components | None
    """Of paired log ratios; None also without a second variant."""


def by_experiment(runs: pd.DataFrame) -> dict[tuple[str, ...], Variance]:
    """Estimate the components of each experiment (`EXPERIMENT`) in a table of `store.queries.runs`.

    Only measured runs with a result and the usual measures count, with at most as many workers as hardware threads if
    that number is known, and only points with two rounds or more. Runs of different software are different points.
    """
    timed = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured") & (runs["measures"] == "usual")]
    fits = (timed["threads"] <= timed["hardware_threads"]).astype("boolean").fillna(True)
    timed = timed[timed["loop_s"].notna() & fits.astype(bool)]
    return {
        tuple(map(str, key)): variance(of_experiment)
        for key, of_experiment in timed.groupby([*EXPERIMENT], sort=True)
        if _several_rounds(of_experiment).any()
    }


def variance(runs: pd.DataFrame) -> Variance:
    """Estimate the components of one experiment from its timed runs."""
    runs = runs[_several_rounds(runs)]
    point, round_ = numbered(runs, _points(runs)), numbered(runs, ROUND)
    times = components(np.log(runs["loop_s"].to_numpy(dtype=float)), point, round_)
    ratios = paired_log_ratios(runs)
    paired = components(*(ratios[name].to_numpy() for name in ("log_ratio", "point", "round")), paired=True)
    return Variance(len(np.unique(point)), len(np.unique(round_)), len(runs), times, paired)


def components(logs: Floats, point: Numbers, round_: Numbers, *, paired: bool = False) -> Components | None:
    """The components of one log value for each trial, given the numbers of its point and its round.

    paired: the values are ratios within a round, so without repeats there is no common effect of a round to remove,
    and what the round does to one ratio alone is not separable from the noise of its trials.
    """
    cells = pd.factorize(pd.MultiIndex.from_arrays([point, round_]))[0]
    n_cells = len(np.unique(cells))
    if n_cells < len(logs):
        return _nested(logs, point, cells)
    if paired:
        free = len(logs) - len(np.unique(point))
        return Components("residuals", None, math.sqrt(_squares(logs, point) / free)) if free > 0 else None
    return _additive(logs, point, round_)


def _nested(logs: Floats, point: Numbers, cells: Numbers) -> Components | None:
    """Rounds within points, trials within rounds: unbalanced one-way samples, pooled over the points."""
    sizes = np.bincount(cells).astype(float)
    of_cell = np.zeros(len(sizes), dtype=np.int64)
    of_cell[cells] = point
    totals = np.bincount(of_cell, sizes)
    rounds = len(sizes) - len(np.unique(point))
    within = _squares(logs, cells)
    between = _squares(logs, point) - within
    free = len(logs) - len(sizes)
    mean_within = within / free
    # The expectation of `between` is rounds * (variance within) + weight * (variance between).
    present = totals > 0
    weight = float((totals - np.bincount(of_cell, sizes**2) / np.where(present, totals, 1))[present].sum())
    if rounds <= 0 or weight <= 0:
        return None
    return Components("repeats", _root((between - rounds * mean_within) / weight), math.sqrt(mean_within))


def _additive(logs: Floats, point: Numbers, round_: Numbers) -> Components | None:
    """Point + round + residual, with one trial of each point in a round."""
    n_points, indicators = len(np.unique(point)), np.eye(int(round_.max(initial=-1)) + 1)[round_]
    design, values = (_centred(columns, point) for columns in (indicators, logs[:, None]))
    effects, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    free = len(logs) - n_points - int(rank)
    if free <= 0 or rank == 0:
        return None
    fitted = design @ effects
    residual = float(((values - fitted) ** 2).sum()) / free
    # The expectation of the fitted squares is rank * (residual variance) + trace * (variance between rounds).
    between = (float((fitted**2).sum()) - int(rank) * residual) / float((design**2).sum())
    return Components("residuals", _root(between), math.sqrt(residual))


def trial_noise(values: Floats, point: Numbers, round_: Numbers) -> tuple[float, float]:
    """The standard deviation between trials of a point in a round, and the mean of 1 / repeats.

    The first is 0 if there are no repeats, because then nothing shows it. It is pooled over points and rounds.
    """
    cells = pd.factorize(pd.MultiIndex.from_arrays([point, round_]))[0]
    sizes = np.bincount(cells)
    free = len(values) - len(sizes)
    return math.sqrt(_squares(values, cells) / free) if free else 0.0, float((1 / sizes).mean())


def paired_log_ratios(runs: pd.DataFrame) -> pd.DataFrame:
    """log_ratio, point, round: each timed trial against that of the first variant, in the usual order of variants."""
    named = runs.assign(variant=variants(runs), log=np.log(runs["loop_s"].to_numpy(dtype=float)))
    named = named.assign(repeat=named.get("repeat", 1))
    rank = {name: place for place, name in enumerate(ordered_variants(named["variant"]))}
    named = named.assign(rank=named["variant"].map(rank))
    setting = numbered(named, [name for name in _points(named) if name not in VARIANT])
    first = named["rank"].groupby(setting).transform("min")
    keys = ["setting", *ROUND, "repeat"]
    named = named.assign(setting=setting, point=numbered(named, _points(named)), round_number=numbered(named, ROUND))
    base = named.loc[named["rank"] == first, [*keys, "log"]]
    pairs = named[named["rank"] != first].merge(base, on=keys, suffixes=("", "_of_first"))
    ratios = pd.DataFrame(
        {
            "log_ratio": pairs["log"] - pairs["log_of_first"],
            "point": pairs["point"].astype(np.int64),
            "round": pairs["round_number"].astype(np.int64),
        }
    )
    several = ratios.groupby("point")["round"].transform("nunique") > 1
    return ratios[several].reset_index(drop=True)


def _points(runs: pd.DataFrame) -> list[str]:
    """The columns of a point, with the software in whatever form the table has it."""
    return [name for name in (*POINTS, "software") if name in runs]


def _several_rounds(runs: pd.DataFrame) -> pd.Series:
    """The mask of runs whose point has two rounds or more."""
    rounds = pd.Series(numbered(runs, ROUND), index=runs.index)
    return rounds.groupby(numbered(runs, _points(runs))).transform("nunique") > 1


def _squares(values: Floats, group: Numbers) -> float:
    """The sum of the squared deviations from the mean of each group."""
    return float((_centred(values[:, None], group) ** 2).sum())


def _centred(columns: Floats, group: Numbers) -> Floats:
    """The columns without the mean of each group of rows."""
    number = pd.factorize(group)[0]
    sums = np.zeros((int(number.max(initial=-1)) + 1, columns.shape[1]))
    np.add.at(sums, number, columns)
    means: Floats = sums / np.bincount(number, minlength=len(sums))[:, None]
    return columns - means[number]


def _root(variance_: float) -> float:
    """The standard deviation of a variance that was estimated, which may be negative."""
    return math.sqrt(max(variance_, 0.0))


def as_text(table: dict[tuple[str, ...], Variance]) -> Iterable[str]:
    """The lines of a table, in per cent: one for each experiment, below the platform and the scale."""
    place = None
    for (platform, experiment, scale, definition), of in table.items():
        if place != (platform, scale):
            place = (platform, scale)
            yield f"{platform}, {scale} scale; standard deviations in per cent of the time:"
            yield HEADER
        cells = [f"{100 * value:.1f}" if value is not None else "-" for value in _numbers(of)]
        method = of.times.method if of.times else "too few"
        name = f"{experiment} {definition[:4]}"
        yield f"{name:<30}{of.points:>7}{of.rounds:>7}{of.trials:>7}  {method:<10}" + "".join(f"{c:>8}" for c in cells)


HEADER = (
    f"{'experiment, definition':<30}{'points':>7}{'rounds':>7}{'trials':>7}  {'method':<10}{'rounds':>8}{'trials':>8}"
    + "".join(f"{f'k = {k}':>8}" for k in REPEATS)
)


def _numbers(of: Variance) -> list[float | None]:
    times = [of.times.between, of.times.within] if of.times else [None, None]
    return [*times, *(of.ratios.of_round(k) if of.ratios else None for k in REPEATS)]


def as_json(key: tuple[str, ...], of: Variance) -> dict[str, object]:
    """The components of an experiment for programs; standard deviations of the log."""
    names = dict(zip(("platform", "experiment", "scale", "definition_sha256"), key, strict=True))
    counts = {"points": of.points, "rounds": of.rounds, "trials": of.trials}
    times, ratios = (part._asdict() if part else None for part in (of.times, of.ratios))
    predicted = {str(k): of.ratios.of_round(k) for k in REPEATS} if of.ratios else None
    return {**names, **counts, "times": times, "ratios": ratios, "ratio_of_round_by_repeats": predicted}
