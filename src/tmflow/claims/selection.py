"""Selects the runs that may decide a claim and builds their curves; only rounds of one variant are pooled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.analysis.repeats import averaged, spread
from tmflow.analysis.run_table import ROUND
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.base.errors import Diverged
from tmflow.base.text import listed, workers
from tmflow.claims.decision import Curve, Values
from tmflow.claims.measures import Factors, Measure
from tmflow.claims.predicates import Predicate
from tmflow.claims.schema import Check, Hardware
from tmflow.platform.profiles import load_profile, profile_names

# The capability in a platform's facts, by the claim's name of its transactions.
CAPABILITY: dict[str, str] = {"rtm": "rtm", "power": "htm"}


# The datasets whose runs decide claims. The others are for tests and for a first try.
DECIDING = ("mnist", "synthetic")

# The columns that a verdict keeps of the runs that it is based on.
RUN_COLUMNS = [
    "uid", "experiment", *ROUND, "definition_sha256", "software", "status", "reason", "threads", "disturbed", "resumed",
    "started_at_utc",
]  # fmt: skip
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Candidates:
    """The runs of an experiment, with any status, from one machine and one origin.

    All arrays have one item per run, in the order of `runs`.
    """

    def __init__(self, runs: pd.DataFrame, measured: Callable[[Measure], pd.Series]) -> None:
        """measured: gives the value of each run of the experiment, by uid."""
        self.runs = runs
        self._measured = measured
        self.values = cache(self._values)
        self._codes = cache(self._codes_of)
        self._has = cache(self._equal)

    def having(self, wanted: Factors) -> Mask:
        """The mask of the runs with these factors."""
        mask = np.ones(len(self.runs), dtype=bool)
        for factor, value in wanted.items():
            mask &= self._has(factor, value)
        return mask

    def of_check(self, check: Check, configuration: Factors) -> Mask:
        """The mask of the runs that a check compares under this configuration."""
        chosen = self.having({**check.where, **configuration})
        if check.steps_per_worker is not None:
            chosen &= self.runs["iterations"].to_numpy(dtype=np.int64) == check.steps_per_worker * self.threads
        return chosen

    def of_several(self, mask: Mask, factors: Sequence[str]) -> list[str]:
        """The factors in which the runs of the mask differ."""
        return [name for name in factors if len(np.unique(self._codes(name)[mask])) > 1]

    @cached_property
    def run_facts(self) -> pd.DataFrame:
        """The columns of the runs that a verdict keeps."""
        return self.runs[RUN_COLUMNS]

    @cached_property
    def ok(self) -> Mask:
        return self._equal("status", "ok")

    @cached_property
    def ended(self) -> Mask:
        """The mask of runs without a result that could have run: crashed, hung or otherwise failed."""
        return ~(self.ok | self._equal("status", "unsupported"))

    @cached_property
    def diverged(self) -> Mask:
        """The mask of runs that ended with weights or scores that are not finite."""
        why = self.runs["reason"].fillna("").str.startswith(f"{Diverged.__name__}:")
        return self._equal("status", "failed") & why.to_numpy(dtype=bool)

    @cached_property
    def threads(self) -> Numbers:
        return self.runs["threads"].to_numpy(dtype=np.int64)

    @cached_property
    def fits(self) -> Mask:
        """The mask of runs with at most as many workers as hardware threads; False if unknown."""
        within = self.runs["threads"] <= self.runs["hardware_threads"]
        return within.fillna(False).to_numpy(dtype=bool)

    @cached_property
    def rounds(self) -> Numbers:
        """The index of each run's round."""
        return np.asarray(self.runs.groupby([*ROUND], sort=True).ngroup(), dtype=np.int64)

    def _values(self, measure: Measure) -> Values:
        """The value of each run; NaN if it has none."""
        return self.runs["uid"].map(self._measured(measure)).to_numpy(dtype=float)

    def _equal(self, column: str, value: object) -> Mask:
        return (self.runs[column] == value).fillna(False).to_numpy(dtype=bool)

    def _codes_of(self, factor: str) -> NDArray[np.intp]:
        """Codes of the factor's values: equal for equal values, -1 where it does not apply."""
        return pd.factorize(self.runs[factor])[0]


def usable(runs: pd.DataFrame, evidence: str, hardware: Hardware, scale: str = "full") -> pd.DataFrame:
    """The runs, with any status, that may decide: data that decide, this evidence, hardware and scale."""
    chosen = (runs["evidence"] == evidence) & (runs["scale"] == scale) & runs["dataset"].isin(DECIDING)
    if hardware != "any":
        capability = _emulated_capability(runs) if evidence == "emulated" else runs["tm_capability"]
        chosen &= capability == CAPABILITY[hardware]
    return runs[chosen]


def _emulated_capability(runs: pd.DataFrame) -> pd.Series:
    """The capability of the machine that each run emulates; missing if its profile is unknown here."""
    local_profiles = [name for name in runs["profile"].dropna().unique() if name in profile_names()]
    return runs["profile"].map({name: CAPABILITY[load_profile(name).provider] for name in local_profiles})


class Missing(Exception):
    """The curves of a check cannot be built; the message says which runs are missing."""


class Selected(NamedTuple):
    """The curves of a check and their runs."""

    curves: list[Curve]
    rounds: tuple[int, int]
    """The fewest and the most rounds of a point; equal if the predicate is paired."""
    runs: pd.DataFrame
    left_out: dict[int, int]
    """Numbers of workers left out because of too few rounds, with the number of rounds."""
    failed: pd.DataFrame
    """Runs missing from the curves because they crashed, hung or otherwise failed."""
    diverged: pd.DataFrame
    """Runs missing from the curves because they diverged and so have no accuracy."""
    agreeing: list[int]
    """Numbers of workers without a value because too many runs diverged, which satisfies the predicate."""
    tried: int
    """The number of runs tried: failed, diverged and successful."""


def select(check: Check, configurations: Mapping[str, Factors], varying: Sequence[str], among: Candidates) -> Selected:
    """Build the curves of a check.

    varying: the factors in which runs of the experiment differ; among: the runs of one machine that may decide.
    Raises Missing if a curve has no run or mixes variants, or if the curves share no number of workers.
    """
    predicate = check.predicate
    least = 1 if predicate.of_speedup else predicate.least  # a speedup needs its one worker
    about = (least <= among.threads) & (among.threads <= predicate.largest)
    values = among.values(predicate.measure)
    if check.steps_per_worker is not None:
        varying = [name for name in varying if name != "iterations"]  # the number of workers gives them
    masks, failed, grids = [], [], []
    for name in predicate.of:
        whose = f"{name} in {check.place}"
        wanted = among.of_check(check, configurations[name])
        masks.append(_fitting(among, wanted, varying, about, whose))
        failed.append(wanted & among.ended & about & among.fits)
        missing = f"{whose} has no run with a known {predicate.measure}"
        grids.append(_grid(among, masks[-1], values, missing, predicate.measure))
    threads, left_out = _common_threads(grids, predicate)
    # If the predicate is paired, the rounds in which every curve has all these numbers of workers.
    used_rounds: Mask = (
        np.all([grid.has(w) for grid in grids for w in threads], axis=0)
        if predicate.paired
        else np.any([grid.has(w) for grid in grids for w in grid.threads], axis=0)
    )
    if not used_rounds.any():
        raise Missing(f"in {check.place} no round has all of {workers(*threads)} of {listed(predicate.of)}")
    curves = [
        Curve(name, tuple(threads), np.stack([grid.at(w)[used_rounds] for w in threads]))
        for name, grid in zip(predicate.of, grids, strict=True)
    ]
    used, lost = np.any(masks, axis=0), np.any(failed, axis=0)
    left_out |= {int(w): 0 for w in np.unique(among.threads[lost]) if w not in threads and w not in left_out}
    rounds = [int((~np.isnan(values)).sum()) for curve in curves for values in curve.values]
    agreeing = [w for w in left_out if predicate.diverged_agrees and _agree(w, grids, failed, among)]
    return Selected(
        curves,
        (min(rounds), max(rounds)),
        among.run_facts[used & used_rounds[among.rounds] & np.isin(among.threads, threads)],
        {w: left_out[w] for w in sorted(left_out) if w not in agreeing},
        _in_order(among.run_facts, [mask & ~among.diverged for mask in failed]),
        _in_order(among.run_facts, [mask & among.diverged for mask in failed]),
        sorted(agreeing),
        int(used.sum() + lost.sum()),
    )


class _Grid(NamedTuple):
    """The values of one curve, of shape (rounds, numbers of workers); NaN if a round has none."""

    threads: list[int]
    values: Values

    def at(self, threads: int) -> Values:
        """The values at a number of workers, one per round."""
        if threads in self.threads:
            return self.values[:, self.threads.index(threads)]
        return np.full(len(self.values), np.nan)

    def has(self, threads: int) -> Mask:
        """The mask of rounds with a value at a number of workers."""
        return ~np.isnan(self.at(threads))


def _agree(threads: int, grids: Sequence[_Grid], failed: Sequence[Mask], among: Candidates) -> bool:
    """Whether each curve has enough rounds at a number of workers, counting diverged runs."""
    lost = among.diverged & (among.threads == threads)
    pairs = zip(grids, failed, strict=True)
    rounds = [np.union1d(np.flatnonzero(grid.has(threads)), among.rounds[mask & lost]) for grid, mask in pairs]
    return all(len(either) >= LEAST_ROUNDS for either in rounds)


def _in_order(runs: pd.DataFrame, masks: Sequence[Mask]) -> pd.DataFrame:
    """The runs selected by any mask, in the order of the masks."""
    return runs.iloc[pd.unique(np.concatenate([np.flatnonzero(mask) for mask in masks]))]


def ends(runs: pd.DataFrame) -> str:
    """The statuses and reasons of runs without a result, at most two."""
    outcomes = (runs["status"] + ": " + runs["reason"].fillna("no reason is known")).drop_duplicates()
    return "; ".join(outcomes[:2])


def _fitting(among: Candidates, wanted: Mask, varying: Sequence[str], about: Mask, whose: str) -> Mask:
    """The mask of wanted runs with a result, in the claim's range of workers and not oversubscribed.

    Raises Missing if there are none, or of several variants.
    """
    ok = wanted & among.ok
    if not ok.any():
        detail = f" ({ends(among.run_facts[wanted])})" if wanted.any() else ""
        raise Missing(f"{whose} has no run with a result{detail}")
    if differing := among.of_several(ok, varying):
        runs = among.runs[ok]
        detail = "; ".join(f"{name} {listed(sorted(runs[name].dropna().unique()))}" for name in differing)
        raise Missing(f"{whose} is several variants ({detail}), of which the claim must name one")
    if not (ok & about).any():
        raise Missing(f"{whose} has no run with a number of workers that it is about")
    fits = ok & about & among.fits
    if not fits.any():
        raise Missing(
            f"{whose} has no run with as many hardware threads as workers, as far as is known, and oversubscribed "
            "ones say nothing about scaling"
        )
    return fits


def _grid(among: Candidates, runs: Mask, values: Values, missing: str, measure: Measure) -> _Grid:
    """The grid of the runs' values: of repeats their average (`averaged`), or their spread.

    Raises Missing if there are none.
    """
    has_value = runs & ~np.isnan(values)
    if not has_value.any():
        raise Missing(missing)
    threads, columns = np.unique(among.threads[has_value], return_inverse=True)
    grid = np.full((int(among.rounds.max()) + 1, len(threads)), np.nan)
    cells, cell_of = np.unique(among.rounds[has_value] * len(threads) + columns, return_inverse=True)
    if measure.is_spread:
        grid.flat[cells] = spread(values[has_value], cell_of)
    else:
        grid.flat[cells] = averaged(values[has_value], cell_of, on_log=measure.is_speed)
    return _Grid(threads.tolist(), grid)


def _common_threads(grids: Sequence[_Grid], predicate: Predicate) -> tuple[list[int], dict[int, int]]:
    """The numbers of workers with enough common rounds (if there are none, with any), and the rounds of the others."""
    every = sorted({w for grid in grids for w in grid.threads})
    having = {w: [grid.has(w) for grid in grids] for w in every}
    rounds = {
        w: int(np.all(masks, axis=0).sum()) if predicate.paired else min(int(mask.sum()) for mask in masks)
        for w, masks in having.items()
    }
    kept = [w for w in every if rounds[w] >= LEAST_ROUNDS] or [w for w in every if rounds[w]]
    if not kept:
        raise Missing(f"{listed(predicate.of)} have no round with the same number of workers in common")
    if predicate.of_speedup and (1 not in kept or kept == [1]):
        raise Missing(f"{listed(predicate.of)} need runs of one worker and of several for a speedup")
    return kept, {w: rounds[w] for w in every if w not in kept}
