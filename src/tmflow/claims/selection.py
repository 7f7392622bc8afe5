"""Which runs a claim may draw on, and the curves that they make. What differs in more than its round is not pooled."""

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

LEAST_ROUNDS = 6  # no verdict from fewer
# What a platform's facts say, by the claim's word for its transactions.
CAPABILITY: dict[str, str] = {"rtm": "rtm", "power": "htm"}


class Missing(Exception):
    """No runs make the curves of a check; the message says what is missing."""


class Selected(NamedTuple):
    """The curves of a check, and the runs that they came from."""

    curves: list[Curve]
    rounds: tuple[int, int]
    """The fewest and the most that a point of a curve has; those that are paired have all the same."""
    runs: pd.DataFrame
    left_out: dict[int, int]
    """Numbers of workers that are not looked at, as too few rounds have them, and how many do."""
    failed: pd.DataFrame
    """The runs that would have been on the curves, had they not crashed, hung, or ended otherwise without a result."""
    diverged: pd.DataFrame
    """Those that would have been, had their model not ended in numbers that are not finite: it has no accuracy then."""
    agreeing: list[int]
    """Numbers of workers without a value, as too many runs diverged there, which is as the predicate says."""
    tried: int
    """How many those are, together with all that have a result."""


def usable(runs: pd.DataFrame, evidence: str, hardware: Hardware) -> pd.DataFrame:
    """The runs, of any status, that may decide: of MNIST, at full scale, of this evidence and this hardware."""
    chosen = (runs["evidence"] == evidence) & (runs["scale"] == "full") & (runs["dataset"] == "mnist")
    if hardware != "any":
        capability = _emulated_capability(runs) if evidence == "emulated" else runs["tm_capability"]
        chosen &= capability == CAPABILITY[hardware]
    return runs[chosen]


def select(check: Check, configurations: Mapping[str, Factors], varying: Sequence[str], among: Candidates) -> Selected:
    """The curves of a check.

    varying: the factors in which any runs of its experiment differ; among: the runs of one machine that may decide.
    Raises Missing where a curve has no run or would be of several variants, or no number of workers is common to all.
    """
    predicate = check.predicate
    about = (predicate.least <= among.threads) & (among.threads <= predicate.most)
    values = among.values(predicate.measure)
    own, failed, grids = [], [], []
    for name in predicate.of:
        whose = f"{name} in {check.place}"
        wanted = among.having({**check.where, **configurations[name]})
        own.append(_fitting(among, _of_variant(among, wanted, varying, whose), about, whose))
        failed.append(wanted & among.ended & about & among.fits)
        grids.append(_grid(among, own[-1], values, f"{whose} has no run that tells its {predicate.measure}"))
    threads, left_out = _common_threads(grids, predicate)
    together = _together(grids, threads, predicate.paired)
    if not together.any():
        raise Missing(f"in {check.place} no round has all of {workers(*threads)} of {listed(predicate.of)}")
    curves = [
        Curve(name, tuple(threads), np.stack([grid.at(w)[together] for w in threads]))
        for name, grid in zip(predicate.of, grids, strict=True)
    ]
    used, lost = np.any(own, axis=0), np.any(failed, axis=0)
    left_out |= {int(w): 0 for w in np.unique(among.threads[lost]) if w not in threads and w not in left_out}
    rounds = [int((~np.isnan(values)).sum()) for curve in curves for values in curve.values]
    agreeing = [w for w in left_out if predicate.diverged_agrees and _agree(w, grids, failed, among)]
    return Selected(
        curves,
        (min(rounds), max(rounds)),
        among.told[used & together[among.rounds] & np.isin(among.threads, threads)],
        {w: left_out[w] for w in sorted(left_out) if w not in agreeing},
        among.told.iloc[_in_order(failed, ~among.diverged)],
        among.told.iloc[_in_order(failed, among.diverged)],
        sorted(agreeing),
        int(used.sum() + lost.sum()),
    )


def _emulated_capability(runs: pd.DataFrame) -> pd.Series:
    """That of the machine that each run emulates; none where its profile is not known here."""
    known = [name for name in runs["profile"].dropna().unique() if name in profile_names()]
    return runs["profile"].map({name: CAPABILITY[load_profile(name).provider] for name in known})


class _Grid(NamedTuple):
    """The values of one curve: of shape (rounds, numbers of workers), NaN where a round has none."""

    threads: list[int]
    values: Values

    def at(self, threads: int) -> Values:
        """Of that number of workers, an item for each round."""
        if threads in self.threads:
            return self.values[:, self.threads.index(threads)]
        return np.full(len(self.values), np.nan)

    def has(self, threads: int) -> Mask:
        """Which rounds have a value of that number of workers."""
        return ~np.isnan(self.at(threads))


def _agree(threads: int, grids: Sequence[_Grid], failed: Sequence[Mask], among: Candidates) -> bool:
    """Whether each curve has enough rounds with that number of workers, counting those that diverged."""
    lost = among.diverged & (among.threads == threads)
    pairs = zip(grids, failed, strict=True)
    return all(int(grid.has(threads).sum()) + int((its & lost).sum()) >= LEAST_ROUNDS for grid, its in pairs)


def _in_order(masks: Sequence[Mask], among: Mask) -> NDArray[np.int64]:
    """The places of what any of the masks has, those of the first before those of the next."""
    return pd.unique(np.concatenate([np.flatnonzero(mask & among) for mask in masks]))


def ends(runs: pd.DataFrame) -> str:
    """How runs without a result ended, and why: up to two reasons."""
    told = (runs["status"] + ": " + runs["reason"].fillna("no reason is known")).drop_duplicates()
    return "; ".join(told[:2])


def _of_variant(among: Candidates, wanted: Mask, varying: Sequence[str], whose: str) -> Mask:
    """Those of the wanted that have a result, if they are of one variant; `varying`: as for `select`."""
    ok = wanted & among.ok
    if not ok.any():
        told = f" ({ends(among.told[wanted])})" if wanted.any() else ""
        raise Missing(f"{whose} has no run with a result{told}")
    if differing := among.of_several(ok, varying):
        runs = among.runs[ok]
        values = {name: listed(sorted(runs[name].dropna().unique())) for name in differing}
        told = "; ".join(f"{name} {its}" for name, its in values.items())
        raise Missing(f"{whose} is several variants ({told}), of which the claim must name one")
    return ok


def _fitting(among: Candidates, runs: Mask, about: Mask, whose: str) -> Mask:
    """Those of the runs whose number of workers the claim is about and the machine has hardware threads for."""
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
    """The values of the runs; raises Missing where there is none."""
    known = runs & ~np.isnan(values)
    if not known.any():
        raise Missing(missing)
    threads, columns = np.unique(among.threads[known], return_inverse=True)
    grid = np.full((int(among.rounds.max()) + 1, len(threads)), np.nan)
    grid[among.rounds[known], columns] = values[known]
    return _Grid(threads.tolist(), grid)


def _common_threads(grids: Sequence[_Grid], predicate: Predicate) -> tuple[list[int], dict[int, int]]:
    """The numbers of workers that all have enough rounds of, if any has; and how many rounds have those left out."""
    every = sorted({w for grid in grids for w in grid.threads})
    rounds = {w: _common_rounds(grids, w, predicate.paired) for w in every}
    kept = [w for w in every if rounds[w] >= LEAST_ROUNDS] or [w for w in every if rounds[w]]
    if not kept:
        raise Missing(f"{listed(predicate.of)} have no round with the same number of workers in common")
    if predicate.of_speedup and (1 not in kept or kept == [1]):
        raise Missing(f"{listed(predicate.of)} need runs of one worker and of several for a speedup")
    return kept, {w: rounds[w] for w in every if w not in kept}


def _common_rounds(grids: Sequence[_Grid], threads: int, paired: bool) -> int:
    """How many rounds have that number of workers: together, or of the curve that has the fewest."""
    having = [grid.has(threads) for grid in grids]
    return int(np.all(having, axis=0).sum()) if paired else min(int(its.sum()) for its in having)


def _together(grids: Sequence[_Grid], threads: Sequence[int], paired: bool) -> Mask:
    """Which rounds are looked at: if they are `paired`, those that all have all of these numbers of workers of."""
    looked_at: Mask = (
        np.all([grid.has(w) for grid in grids for w in threads], axis=0)
        if paired
        else np.any([grid.has(w) for grid in grids for w in grid.threads], axis=0)
    )
    return looked_at
