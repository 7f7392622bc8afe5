"""Noise: how much the time of a point varies over its rounds, and how many trials other processes disturbed.

The deviation of a run is the log of its loop time divided by the geometric mean of its point. A point is all runs with
the same factors, experiment, definition and software. Deviations exist only for measured runs with the usual measures,
with at most `threads` workers if that is known, and for points with two rounds or more.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from tmflow.analysis.run_table import ROUND
from tmflow.base.text import several
from tmflow.spec.trial import TrialSpec

POINTS = ("experiment", "scale", "definition_sha256", "software_sha256", *TrialSpec.model_fields)
PROCESS = ("experiment", "scale", "definition_sha256", *ROUND)
BINS = 41  # odd: one is around 0
COVERED = 0.99  # share of the deviations that the range of the bins covers


class Noise(NamedTuple):
    """Spreads as fractions of the time: 0.02 is 2 %. None where there are too few rounds."""

    runs: int
    points: int
    rounds: int
    total: float | None
    """Standard deviation of the deviations, pooled over points."""
    within: float | None
    """The same after subtracting the mean deviation of each round, as a paired ratio does."""


def deviations(runs: pd.DataFrame, threads: int | None) -> pd.DataFrame:
    """The runs that have a deviation (see the module), with `deviation` and `n`, the rounds of their point."""
    timed = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured") & (runs["measures"] == "usual")]
    timed = timed[timed["loop_s"].notna() & ((timed["threads"] <= threads) if threads else True)]
    logs = pd.Series(np.log(timed["loop_s"].to_numpy(dtype=float)), index=timed.index)
    of_point = logs.groupby([timed[name] for name in POINTS], dropna=False)
    timed = timed.assign(deviation=logs - of_point.transform("mean"), n=of_point.transform("size"))
    return timed[timed["n"] > 1]


def noise(runs: pd.DataFrame) -> Noise:
    """Compute the spreads of the runs that `deviations` returns."""
    points = runs.groupby([*POINTS], dropna=False).ngroups
    rounds = runs.groupby([*PROCESS], dropna=False)["deviation"]
    free = len(runs) - points
    residual = runs["deviation"] - rounds.transform("mean")
    still_free = free - rounds.ngroups + len(runs[[*POINTS[:4]]].drop_duplicates())
    return Noise(
        len(runs),
        points,
        rounds.ngroups,
        math.sqrt((runs["deviation"] ** 2).sum() / free) if free > 0 else None,
        math.sqrt((residual**2).sum() / still_free) if still_free > 0 else None,
    )


def histogram(runs: pd.DataFrame) -> pd.DataFrame:
    """Bin the deviations in per cent of the time (low, high, runs, share); the outermost bins hold the outliers."""
    per_cent = 100 * np.expm1(runs["deviation"].to_numpy(dtype=float) * np.sqrt(runs["n"] / (runs["n"] - 1)))
    reach = max(float(np.quantile(np.abs(per_cent), COVERED)), 0.5)
    counts, edges = np.histogram(np.clip(per_cent, -reach, reach), BINS, (-reach, reach))
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], "runs": counts, "share": counts / counts.sum()})


ROUNDS = ("experiment", "definition_sha256", *ROUND)


class RoundLoad(NamedTuple):
    """The CPU time that other processes used during the trials of rounds, as fractions of the machine's."""

    rounds: int
    """Rounds of which the load is known, from at least one trial."""
    mean: float
    """Over the time of all trials that recorded it."""
    most: float
    """The highest mean of a round."""
    judged: float
    """The share of the time of all trials that is judged; the rest is that of trials too short to judge."""


class Disturbance(NamedTuple):
    """Counts of the trials with a result on real hardware; `unknown` ones are not among the disturbed."""

    trials: int
    disturbed: int
    unknown: int
    rounds: int
    disturbed_rounds: int
    """Rounds in which most of the monitored trials were disturbed."""
    load: RoundLoad | None = None
    """The load of the rounds by other processes; None if no trial recorded it."""


def count_disturbed(runs: pd.DataFrame) -> Disturbance:
    """Count the disturbed runs in a table of `store.queries.runs`; only measured runs with a result count."""
    ran = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured")]
    monitored = ran[ran["disturbed"].notna()]
    share = monitored["disturbed"].astype(bool).groupby([monitored[name] for name in ROUNDS], dropna=False).mean()
    return Disturbance(
        trials=len(ran),
        disturbed=int(monitored["disturbed"].astype(bool).sum()),
        unknown=len(ran) - len(monitored),
        rounds=ran.groupby([*ROUNDS], dropna=False).ngroups,
        disturbed_rounds=int((share > 0.5).sum()),
        load=_load_of_rounds(ran),
    )


def _load_of_rounds(ran: pd.DataFrame) -> RoundLoad | None:
    """The load of the rounds of these runs, each weighted by the time of its trial with set-up and evaluation.

    Most trials of a study may be too short to judge, but these take little of a round's time.
    """
    others, total_s, loop_s = (pd.to_numeric(ran[name]) for name in ("others_fraction", "total_s", "loop_s"))
    seconds = total_s.fillna(loop_s)
    judged = (others.notna() & (seconds > 0)).to_numpy(dtype=bool)
    if not judged.any():
        return None
    keys = [ran.loc[judged, name] for name in ROUNDS]
    used_s = (others[judged] * seconds[judged]).groupby(keys, dropna=False).sum()
    judged_s = seconds[judged].groupby(keys, dropna=False).sum()
    return RoundLoad(
        rounds=len(judged_s),
        mean=float(used_s.sum() / judged_s.sum()),
        most=float((used_s / judged_s).max()),
        judged=float(judged_s.sum() / seconds.sum()),
    )


def sentence_on(counted: Disturbance) -> str | None:
    """Describe the counts and the load of the rounds; None if every trial is judged to be undisturbed."""
    if counted.disturbed == counted.unknown == 0:
        return None
    trials = several(counted.trials, "trial")
    cannot = f"whether other processes used the machine is not known of {counted.unknown} of {trials}"
    load = f" {load_in_words(counted.load, counted.rounds)}" if counted.load else ""
    if not counted.disturbed:
        return f"{cannot[0].upper()}{cannot[1:]}.{load}"
    more = f"; {cannot}" if counted.unknown else ""
    of_rounds = f"{counted.disturbed_rounds} of {several(counted.rounds, 'round')}"
    rounds = f", and during most trials of {of_rounds}" if counted.disturbed_rounds else ""
    return (
        f"Other processes used the machine during {counted.disturbed} of {trials}{rounds}, so their times are less "
        f"certain{more}.{load}"
    )


def load_in_words(load: RoundLoad, rounds: int) -> str:
    """Describe the load of `rounds` rounds in a sentence."""
    which = f"{load.rounds} of {several(rounds, 'round')}"
    if load.rounds == rounds:
        which = "the rounds" if rounds > 1 else "the round"
    most = f", at most {_percents(load.most)} % in one" if load.rounds > 1 else ""
    judged = "" if load.judged > 0.995 else f", judged over {100 * load.judged:.0f} % of the time of all trials"
    return f"During {which} other processes used {_percents(load.mean)} % of the machine{most}{judged}."


def _percents(fraction: float) -> str:
    """A percentage of two digits, or 100: rounded to two digits that would be 1e+02."""
    return f"{100 * fraction:.2g}" if 100 * fraction < 99.5 else f"{100 * fraction:.0f}"
