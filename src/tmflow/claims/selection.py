"""Which runs a claim may draw on, and the curves that they make. What differs in more than its round is not pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from tmflow.claims.checks import Check, Factors, Measure, Predicate
from tmflow.claims.curve import Curve
from tmflow.claims.schema import Hardware
from tmflow.claims.tables import Tables
from tmflow.errors import Diverged
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.point import ROUND
from tmflow.wording import listed, workers

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
    chosen = runs[(runs["evidence"] == evidence) & (runs["scale"] == "full") & (runs["dataset"] == "mnist")]
    if hardware == "any":
        return chosen
    capability = _emulated_capability(chosen) if evidence == "emulated" else chosen["tm_capability"]
    return chosen[capability == CAPABILITY[hardware]]


def select(check: Check, configurations: Mapping[str, Factors], tables: Tables, runs: pd.DataFrame) -> Selected:
    """The curves of a check.

    tables: of its experiment; runs: those of its runs, of one machine, that `usable` leaves.
    Raises Missing where a curve has no run or would be of several variants, or no number of workers is common to all.
    """
    values = tables.measured(check.predicate.measure)
    own, pivots, failed = [], [], []
    for name in check.predicate.of:
        whose = f"{name} in {check.place}"
        wanted = runs[_having(runs, {**check.where, **configurations[name]})]
        own.append(_fitting(_of_variant(wanted, tables.varying, whose), check.predicate, whose))
        failed.append(wanted[~wanted["status"].isin(["ok", "unsupported"]) & _fits(wanted, check.predicate)])
        pivots.append(_by_round(own[-1], values, check.predicate.measure, whose))
    threads, left_out = _common_threads(pivots, check.predicate)
    together = _joined(pivots, threads, check.predicate.paired)
    if together.empty:
        raise Missing(f"in {check.place} no round has all of {workers(*threads)} of {listed(check.predicate.of)}")
    curves = [
        Curve(name, tuple(threads), together[number].to_numpy(dtype=float).T)
        for number, name in enumerate(check.predicate.of)
    ]
    used = pd.concat(own).drop_duplicates("uid")
    of_rounds = pd.MultiIndex.from_frame(used[[*ROUND]]).isin(together.index)
    seen = used[of_rounds & used["threads"].isin(threads)]
    lost = pd.concat(failed).drop_duplicates("uid")
    left_out |= {int(w): 0 for w in lost["threads"].unique() if w not in threads and w not in left_out}
    of_divergence, rounds = diverged(lost), together.notna().sum()
    agreeing = [w for w in left_out if check.predicate.diverged_agrees and _agree(w, pivots, failed)]
    return Selected(
        curves,
        (int(rounds.min()), int(rounds.max())),
        seen,
        {w: left_out[w] for w in sorted(left_out) if w not in agreeing},
        lost[~of_divergence],
        lost[of_divergence],
        sorted(agreeing),
        len(used) + len(lost),
    )


def _emulated_capability(runs: pd.DataFrame) -> pd.Series:
    """That of the machine that each run emulates; none where its profile is not known here."""
    known = [name for name in runs["profile"].dropna().unique() if name in profile_names()]
    return runs["profile"].map({name: CAPABILITY[load_profile(name).provider] for name in known})


def diverged(runs: pd.DataFrame) -> pd.Series:
    """Which of the runs ended in weights or scores that are not finite."""
    return (runs["status"] == "failed") & runs["reason"].fillna("").str.startswith(f"{Diverged.__name__}:")


def _agree(threads: int, pivots: Sequence[pd.DataFrame], failed: Sequence[pd.DataFrame]) -> bool:
    """Whether each curve has enough rounds with that number of workers, counting those that diverged."""
    lost = [int((diverged(runs) & (runs["threads"] == threads)).sum()) for runs in failed]
    valued = [int(pivot[threads].count()) if threads in pivot else 0 for pivot in pivots]
    return all(n + m >= LEAST_ROUNDS for n, m in zip(lost, valued, strict=True))


def ends(runs: pd.DataFrame) -> str:
    """How runs without a result ended, and why: up to two reasons."""
    told = (runs["status"] + ": " + runs["reason"].fillna("no reason is known")).drop_duplicates()
    return "; ".join(told[:2])


def _having(runs: pd.DataFrame, wanted: Factors) -> pd.Series:
    """Which of the runs have these factors."""
    own = pd.Series(True, index=runs.index)
    for factor, value in wanted.items():
        own &= (runs[factor] == value).fillna(False).astype(bool)
    return own


def _of_variant(runs: pd.DataFrame, varying: Sequence[str], whose: str) -> pd.DataFrame:
    """Those of the runs that have a result, if they are of one variant; `varying`: the factors in which any differ."""
    ok = runs[runs["status"] == "ok"]
    if ok.empty:
        raise Missing(f"{whose} has no run with a result" + (f" ({ends(runs)})" if len(runs) else ""))
    differing = [name for name in varying if ok[name].nunique(dropna=False) > 1]
    if differing:
        values = {name: listed(sorted(ok[name].dropna().unique())) for name in differing}
        told = "; ".join(f"{name} {among}" for name, among in values.items())
        raise Missing(f"{whose} is several variants ({told}), of which the claim must name one")
    return ok


def _fitting(runs: pd.DataFrame, predicate: Predicate, whose: str) -> pd.DataFrame:
    """The runs whose number of workers the claim is about and the machine has hardware threads for."""
    if not _about(runs, predicate).any():
        raise Missing(f"{whose} has no run with a number of workers that it is about")
    fits = _fits(runs, predicate)
    if not fits.any():
        raise Missing(
            f"{whose} has no run with as many hardware threads as workers, as far as is known, and oversubscribed "
            "ones say nothing about scaling"
        )
    return runs[fits]


def _about(runs: pd.DataFrame, predicate: Predicate) -> pd.Series:
    return runs["threads"].between(predicate.least, predicate.most)


def _fits(runs: pd.DataFrame, predicate: Predicate) -> pd.Series:
    return _about(runs, predicate) & (runs["threads"] <= runs["hardware_threads"]).fillna(False).astype(bool)


def _by_round(runs: pd.DataFrame, values: pd.Series, measure: Measure, whose: str) -> pd.DataFrame:
    """The values of the runs: a row for each round, a column for each number of workers."""
    known = runs[[*ROUND, "threads"]].assign(value=runs["uid"].map(values)).dropna(subset="value")
    if known.empty:
        raise Missing(f"{whose} has no run that tells its {measure}")
    return known.pivot(index=[*ROUND], columns="threads", values="value")


def _common_threads(pivots: Sequence[pd.DataFrame], predicate: Predicate) -> tuple[list[int], dict[int, int]]:
    """The numbers of workers that all have enough rounds of, if any has; and how many rounds have those left out."""
    every = sorted({int(w) for pivot in pivots for w in pivot.columns})
    rounds = {w: _common_rounds(pivots, w, predicate.paired) for w in every}
    kept = [w for w in every if rounds[w] >= LEAST_ROUNDS] or [w for w in every if rounds[w]]
    if not kept:
        raise Missing(f"{listed(predicate.of)} have no round with the same number of workers in common")
    if predicate.of_speedup and (1 not in kept or kept == [1]):
        raise Missing(f"{listed(predicate.of)} need runs of one worker and of several for a speedup")
    return kept, {w: rounds[w] for w in every if w not in kept}


def _common_rounds(pivots: Sequence[pd.DataFrame], threads: int, paired: bool) -> int:
    """How many rounds have that number of workers: together, or of the pivot that has the fewest."""
    if not all(threads in pivot for pivot in pivots):
        return 0
    return len(_joined(pivots, [threads], True)) if paired else min(int(pivot[threads].count()) for pivot in pivots)


def _joined(pivots: Sequence[pd.DataFrame], threads: list[int], paired: bool) -> pd.DataFrame:
    """The pivots side by side, by their number; NaN where a round does not have that number of workers.

    If they are `paired`, only of the rounds that all have all of these numbers of workers of.
    """
    sides = [pivot[threads] for pivot in pivots]
    together = pd.concat(sides, axis=1, keys=range(len(sides)), join="inner" if paired else "outer")
    return together.dropna() if paired else together
