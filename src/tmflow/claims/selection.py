"""Selects the runs that may decide a claim and builds their curves; only rounds of one variant are pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tmflow.base.text import listed, workers
from tmflow.claims.checks import Check, Factors, Predicate
from tmflow.claims.data import Candidates, Mask
from tmflow.claims.schema import Hardware
from tmflow.claims.statements import Curve, Values
from tmflow.platform.profiles import load_profile, profile_names

LEAST_ROUNDS = 6  # fewer rounds give no verdict
# The capability in a platform's facts, by the claim's name of its transactions.
CAPABILITY: dict[str, str] = {"rtm": "rtm", "power": "htm"}


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
    """Numbers of workers without a value where too many runs diverged, which satisfies the predicate."""
    tried: int
    """The number of runs tried: failed, diverged and successful."""


def usable(runs: pd.DataFrame, evidence: str, hardware: Hardware) -> pd.DataFrame:
    """The runs, with any status, that may decide: MNIST, full scale, this evidence and hardware."""
    chosen = (runs["evidence"] == evidence) & (runs["scale"] == "full") & (runs["dataset"] == "mnist")
    if hardware != "any":
        capability = _emulated_capability(runs) if evidence == "emulated" else runs["tm_capability"]
        chosen &= capability == CAPABILITY[hardware]
    return runs[chosen]


def select(check: Check, configurations: Mapping[str, Factors], varying: Sequence[str], among: Candidates) -> Selected:
    """Build the curves of a check.

    varying: the factors in which runs of the experiment differ; among: the runs of one machine that may decide.
    Raises Missing if a curve has no run or mixes variants, or if the curves share no number of workers.
    """
    predicate = check.predicate
    about = (predicate.least <= among.threads) & (among.threads <= predicate.most)
    values = among.values(predicate.measure)
    masks, failed, grids = [], [], []
    for name in predicate.of:
        whose = f"{name} in {check.place}"
        wanted = among.having({**check.where, **configurations[name]})
        masks.append(_fitting(among, _of_variant(among, wanted, varying, whose), about, whose))
        failed.append(wanted & among.ended & about & among.fits)
        grids.append(_grid(among, masks[-1], values, f"{whose} has no run that tells its {predicate.measure}"))
    threads, left_out = _common_threads(grids, predicate)
    used_rounds = _used_rounds(grids, threads, predicate.paired)
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
        among.run_facts.iloc[_in_order(failed, ~among.diverged)],
        among.run_facts.iloc[_in_order(failed, among.diverged)],
        sorted(agreeing),
        int(used.sum() + lost.sum()),
    )


def _emulated_capability(runs: pd.DataFrame) -> pd.Series:
    """The capability of the machine that each run emulates; missing if its profile is unknown here."""
    local_profiles = [name for name in runs["profile"].dropna().unique() if name in profile_names()]
    return runs["profile"].map({name: CAPABILITY[load_profile(name).provider] for name in local_profiles})


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
    return all(int(grid.has(threads).sum()) + int((mask & lost).sum()) >= LEAST_ROUNDS for grid, mask in pairs)


def _in_order(masks: Sequence[Mask], among: Mask) -> NDArray[np.int64]:
    """Row positions selected by any mask, in the order of the masks."""
    return pd.unique(np.concatenate([np.flatnonzero(mask & among) for mask in masks]))


def ends(runs: pd.DataFrame) -> str:
    """The statuses and reasons of runs without a result, at most two."""
    outcomes = (runs["status"] + ": " + runs["reason"].fillna("no reason is known")).drop_duplicates()
    return "; ".join(outcomes[:2])


def _of_variant(among: Candidates, wanted: Mask, varying: Sequence[str], whose: str) -> Mask:
    """The mask of wanted runs with a result. Raises Missing if there are none, or of several variants."""
    ok = wanted & among.ok
    if not ok.any():
        detail = f" ({ends(among.run_facts[wanted])})" if wanted.any() else ""
        raise Missing(f"{whose} has no run with a result{detail}")
    if differing := among.of_several(ok, varying):
        runs = among.runs[ok]
        values = {name: listed(sorted(runs[name].dropna().unique())) for name in differing}
        detail = "; ".join(f"{name} {listing}" for name, listing in values.items())
        raise Missing(f"{whose} is several variants ({detail}), of which the claim must name one")
    return ok


def _fitting(among: Candidates, runs: Mask, about: Mask, whose: str) -> Mask:
    """The mask of runs in the claim's range of workers that are not oversubscribed. Raises Missing if empty."""
    if not (runs & about).any():
        raise Missing(f"{whose} has no run with a number of workers that it is about")
    fits = runs & about & among.fits
    if not fits.any():
        raise Missing(
            f"{whose} has no run with as many hardware threads as workers, as far as is known, and oversubscribed "
            "ones say nothing about scaling"
        )
    return fits


def _grid(among: Candidates, runs: Mask, values: Values, missing: str) -> _Grid:
    """The grid of the runs' values. Raises Missing if there are none."""
    has_value = runs & ~np.isnan(values)
    if not has_value.any():
        raise Missing(missing)
    threads, columns = np.unique(among.threads[has_value], return_inverse=True)
    grid = np.full((int(among.rounds.max()) + 1, len(threads)), np.nan)
    grid[among.rounds[has_value], columns] = values[has_value]
    return _Grid(threads.tolist(), grid)


def _common_threads(grids: Sequence[_Grid], predicate: Predicate) -> tuple[list[int], dict[int, int]]:
    """The numbers of workers with enough common rounds (else with any), and the others with their rounds."""
    every = sorted({w for grid in grids for w in grid.threads})
    rounds = {w: _common_rounds(grids, w, predicate.paired) for w in every}
    kept = [w for w in every if rounds[w] >= LEAST_ROUNDS] or [w for w in every if rounds[w]]
    if not kept:
        raise Missing(f"{listed(predicate.of)} have no round with the same number of workers in common")
    if predicate.of_speedup and (1 not in kept or kept == [1]):
        raise Missing(f"{listed(predicate.of)} need runs of one worker and of several for a speedup")
    return kept, {w: rounds[w] for w in every if w not in kept}


def _common_rounds(grids: Sequence[_Grid], threads: int, paired: bool) -> int:
    """Count the rounds at a number of workers: common to all curves if paired, else the smallest count."""
    having = [grid.has(threads) for grid in grids]
    return int(np.all(having, axis=0).sum()) if paired else min(int(mask.sum()) for mask in having)


def _used_rounds(grids: Sequence[_Grid], threads: Sequence[int], paired: bool) -> Mask:
    """The mask of rounds used; if `paired`, those in which every curve has all these numbers of workers."""
    looked_at: Mask = (
        np.all([grid.has(w) for grid in grids for w in threads], axis=0)
        if paired
        else np.any([grid.has(w) for grid in grids for w in grid.threads], axis=0)
    )
    return looked_at
