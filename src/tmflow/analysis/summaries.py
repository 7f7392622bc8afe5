"""Runs to tidy tables: one row per point, with an interval over its rounds.

Every function takes the runs as `store.queries.runs` gives them, whatever their status, and returns one row for each
distinct combination of `POINT`: a point is never pooled over platform, evidence, experiment definition, scale or any
factor, and one without a result has a row that says why. The columns are those of `POINT`, then

- measure, unit: what `estimate`, `low` and `high` are;
- estimate, low, high: 95 % interval; NaN bounds for a single round, NaN estimate where there is nothing to estimate;
- rounds: rounds that entered the estimate; disturbed_rounds: rounds with a result that ran on a disturbed machine;
- reason: why the estimate, or a part of its rounds, is missing; None when nothing is;
- oversubscribed: more workers than hardware threads that they may use; NA where that number is unknown;
- last_run_utc: when the newest run of the point started;
- software: what measured the rounds with a result, in words; of several all, with " + " between; NA without a result;
- variant: the strategy, and in parentheses the parameters in which it differs from its fellows in the table, and how it
  ran where that is not the usual way (see `variants.variants`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tmflow.analysis.aggregate import NOTHING, Estimate, Rounds, of_measured, per_point, with_dataset
from tmflow.analysis.pairing import pair_by_round
from tmflow.analysis.run_table import POINT, VARIANT
from tmflow.analysis.stats import Interval, mean_interval, ratio_interval, share_interval, within_shares
from tmflow.base.errors import unknown
from tmflow.runfile.record import NO_TIME
from tmflow.spec.abort_codes import CLASSES, says, status_of

Baseline = Literal["same", "tf_lock"]
BASELINES: dict[str, str] = {
    "same": "the same configuration with one worker",
    "tf_lock": "tf_lock with one worker",
}

TARGETS = (0.90, 0.97)  # test accuracies whose time is asked for
TRANSACTIONAL = ("htm", "stm", "itm", "tle", "block_stm")  # strategies that try transactions
ONE_BY_ONE = 4  # the highest staleness that is told by itself
ANY = "any"  # the cause under which all aborts together are told
BY = {"class": "failures", "family": "causes", "raw_code": "raw_causes"}  # the measure of aborts counted by it


def speedup(runs: pd.DataFrame, baseline: Baseline = "same") -> pd.DataFrame:
    """Speedup t(1)/t(w) of the workers' loop, each run against the baseline of its own round (see `BASELINES`)."""
    if baseline not in BASELINES:
        raise unknown("baseline", baseline, BASELINES)
    compared = ("threads", *VARIANT) if baseline == "tf_lock" else ("threads",)
    shared = [c for c in POINT if c not in compared]
    runs = with_dataset(runs)
    ones = (runs["threads"] == 1) & ((baseline == "same") | (runs["strategy"] == "tf_lock")) & (runs["status"] == "ok")
    paired = pair_by_round(runs, ones, shared, "loop_s", "baseline_s")

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        paired = ~np.isnan(rounds["baseline_s"])
        if not paired.any():
            return NOTHING, f"no round has {BASELINES[baseline]} to compare with"
        missing = int((~paired).sum())
        reason = f"{missing} of {len(paired)} rounds with a result lack {BASELINES[baseline]}" if missing else None
        return ratio_interval(rounds["baseline_s"][paired], rounds["loop_s"][paired]), reason

    name = "speedup" if baseline == "same" else "speedup_vs_tf_lock"
    return per_point(paired, name, "1", _only_with_time(estimate))


def step_time(runs: pd.DataFrame) -> pd.DataFrame:
    """Wall time of the workers' loop divided by the steps of all workers together, in microseconds.

    Geometric mean and log t interval, as for speedups: a time is never below 0.
    """

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        return ratio_interval(rounds["loop_s"], rounds["iterations"] / 1e6), None

    return per_point(with_dataset(runs), "step_time", "us", _only_with_time(estimate))


def accuracy(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy after the last step, a fraction."""
    return per_point(with_dataset(runs), "accuracy", "fraction", _mean_of("final_accuracy"))


def curve(runs: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy after `iteration` steps; `points` has the columns uid, iteration, accuracy.

    A point without a result has one row, its iteration NA. Runs that were not asked for a curve have none.
    """
    asked = with_dataset(runs[runs["curve_points"] > 0])
    rows = of_measured(asked, points[["uid", "iteration", "accuracy"]])
    return per_point(rows, "accuracy_curve", "fraction", _mean_of("accuracy"), along="iteration")


def staleness(runs: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Share of a run's steps that saw from `staleness` to `up_to` updates by others, averaged over rounds.

    Both are the same up to `ONE_BY_ONE`; above, ranges double, as 5 to 8 and 9 to 16. `counts` has the columns uid,
    staleness, steps (any number of rows for each worker). A range that a run never saw counts as a share of 0 in it; a
    run with a result but without any row was not measured and is left out. A point without a result has one row, its
    staleness NA.
    """
    first = counts["staleness"].map(lambda staleness: range_at(place_of(int(staleness)))[0]).astype("int64")
    steps = counts.assign(staleness=first).groupby(["uid", "staleness"])["steps"].sum().unstack(fill_value=0)
    shares = steps.div(steps.sum(axis=1), axis=0).melt(value_name="share", ignore_index=False).reset_index()
    rows = of_measured(with_dataset(runs), shares)
    summary = per_point(rows, "staleness", "fraction", _mean_of("share"), along="staleness")
    summary = summary[summary["estimate"] != 0].reset_index(drop=True)
    last = summary["staleness"].map(lambda staleness: range_at(place_of(int(staleness)))[1], na_action="ignore")
    return summary.assign(up_to=last.astype("Int64"))


def place_of(staleness: int) -> int:
    """The place of a staleness among all ranges, from 0."""
    return staleness if staleness <= ONE_BY_ONE else ONE_BY_ONE + (-(-staleness // ONE_BY_ONE) - 1).bit_length()


def range_at(place: int) -> tuple[int, int]:
    """The first and the last staleness of the range at that place."""
    if place <= ONE_BY_ONE:
        return place, place
    last = ONE_BY_ONE * 2 ** (place - ONE_BY_ONE)
    return last // 2 + 1, last


def commits(runs: pd.DataFrame, transactions: pd.DataFrame) -> pd.DataFrame:
    """Share of a run's critical sections that committed as a transaction, the others having taken the mutex.

    This is the study's commits(w). `transactions` has the columns uid, commits, fallbacks, attempts: NA where unknown,
    and software transactions have no fallbacks. Strategies that try no transactions have no row.
    """
    known = transactions.dropna(subset="commits").set_index("uid").astype(float)
    share = known["commits"] / (known["commits"] + known["fallbacks"].fillna(0))
    rows = of_measured(_of_transactions(runs), share.dropna().rename("share").reset_index())
    return per_point(rows, "commits", "fraction", _mean_of("share"))


def failures(
    runs: pd.DataFrame,
    transactions: pd.DataFrame,
    aborts: pd.DataFrame,
    by: Literal["family", "class", "raw_code"] = "family",
) -> pd.DataFrame:
    """Share of a run's attempts that aborted, for each `cause` that occurs with its strategy, and for `ANY` of them.

    A cause is a family (`tmflow.spec.abort_codes`), a class of the study's figures by its own rule, which hardware
    transactions alone have, or a raw code with what its bits say. `transactions` is as for `commits`, and a run whose
    attempts are unknown has no row; `aborts` has the columns uid, mechanism, family, raw_code, n. A point without a
    result has one row, its cause NA.
    """
    tried = _of_transactions(runs)
    if by == "class":
        tried, aborts = tried[tried["strategy"] == "htm"], in_classes(aborts)
    if by == "raw_code":
        statuses = zip(aborts["mechanism"], aborts["raw_code"], strict=True)
        aborts = aborts.assign(raw_code=[f"{code}: {says(of, status_of(code))}" for of, code in statuses])
    attempts = transactions.set_index("uid")["attempts"].dropna().astype(float)
    counts = aborts.groupby(["uid", by])["n"].sum().unstack(fill_value=0)
    counts[ANY] = counts.sum(axis="columns")
    shares = counts.reindex(attempts[attempts > 0].index, fill_value=0).div(attempts[attempts > 0], axis=0)
    shares = shares.melt(var_name="cause", value_name="share", ignore_index=False).reset_index()
    summary = per_point(of_measured(tried, shares), BY[by], "fraction", _mean_of("share"), along="cause")
    occurs = summary.groupby(["strategy", "cause"], dropna=False)["estimate"].transform("max") != 0
    return summary[occurs | (summary["cause"] == ANY)].reset_index(drop=True)


def in_classes(aborts: pd.DataFrame, rule: Literal["study", "bits"] = "study") -> pd.DataFrame:
    """Those aborts that have a `class` of the study's figures, by its rule or by what the bits of the status say."""
    known = aborts[aborts["mechanism"].isin(list(CLASSES))]
    of, status = known["mechanism"], known["raw_code"].map(status_of)
    index = ("study", "bits").index(rule)
    return known.assign(**{"class": [CLASSES[m][index](code) for m, code in zip(of, status, strict=True)]})


def classes(runs: pd.DataFrame, aborts: pd.DataFrame) -> pd.DataFrame:
    """platform, evidence, profile, mechanism, class, study, bits: aborts in the classes of the study's figures.

    Counted by its rule, and by what the bits of the raw status say (`tmflow.spec.abort_codes`); software's have no
    class.
    `aborts` has the columns uid, mechanism, raw_code, n.
    """
    keys = ["platform", "evidence", "profile"]
    known = aborts.merge(runs[["uid", *keys]], on="uid")
    counts = {
        rule: in_classes(known, rule).groupby([*keys, "mechanism", "class"], dropna=False)["n"].sum()
        for rule in ("study", "bits")
    }
    return pd.DataFrame(counts).fillna(0).astype(int).reset_index()


def time_to_accuracy(runs: pd.DataFrame, points: pd.DataFrame, targets: Iterable[float] = TARGETS) -> pd.DataFrame:
    """Seconds of the workers' loop until the test accuracy first reached each `target`, a fraction.

    `points` has the columns uid, iteration, elapsed_s, accuracy; `first_at` says how a curve is read. Geometric mean
    and log t interval. Where a round never reached the target there is no estimate, for the mean of the others would
    flatter; the reason says how many did not.
    """
    asked = with_dataset(runs[runs["curve_points"] > 0])
    on_the_way = points.sort_values("iteration").groupby("uid")
    summaries = []
    for target in targets:
        reached = [(uid, first_at(target, curve["elapsed_s"], curve["accuracy"])) for uid, curve in on_the_way]
        rows = of_measured(asked, pd.DataFrame(reached, columns=["uid", "reached_s"]))
        estimate = _only_with_time(partial(_mean_time, target=target))
        summaries.append(per_point(rows, "time_to_accuracy", "s", estimate).assign(target=target))
    return pd.concat(summaries, ignore_index=True)


def lost(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the updates of elements that were lost; runs measured in full alone, `full` as their query gives it.

    Rounds are what is independent: updates of one round are lost in bursts. See `stats.share_interval`.
    """
    return _of_full(runs, full, "lost")


def torn(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the reads of variables that caught an update under way; as `lost`."""
    return _of_full(runs, full, "torn")


def _of_transactions(runs: pd.DataFrame) -> pd.DataFrame:
    return with_dataset(runs[runs["strategy"].isin(TRANSACTIONAL)])


def _of_full(runs: pd.DataFrame, full: pd.DataFrame, what: str) -> pd.DataFrame:
    rows = of_measured(with_dataset(runs[runs["measures"] == "full"]), full[["uid", f"{what}_fraction"]])

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        share = rounds[f"{what}_fraction"]
        known = share[~np.isnan(share)]
        return (share_interval(known), None) if len(known) else (NOTHING, "not measured under this strategy")

    return per_point(rows, what, "fraction", estimate)


def _mean_time(rounds: Rounds, target: float) -> tuple[Interval, str | None]:
    reached = rounds["reached_s"]
    never = int(np.isnan(reached).sum())
    if never:
        return NOTHING, f"{never} of {len(reached)} rounds never reached {target:.0%}"
    return ratio_interval(reached, np.ones_like(reached)), None


def _mean_of(column: str) -> Estimate:
    """The mean of a share, with bounds that a share can have."""
    return lambda rounds: (within_shares(mean_interval(rounds[column])), None)


def _only_with_time(estimate: Estimate) -> Estimate:
    """Emulated runs never show time: their estimate is missing, and says why."""

    def guarded(rounds: Rounds) -> tuple[Interval, str | None]:
        return (NOTHING, NO_TIME) if rounds["evidence"][0] == "emulated" else estimate(rounds)

    return guarded


def first_at(target: float, seconds: ArrayLike, accuracies: ArrayLike) -> float:
    """When a curve, in the order of time, first was at a target; NaN if it never was.

    Between the last point below the target and the first that is not, the accuracy is taken to rise straight; before
    the first point nothing is known, so that point's time counts.
    """
    times, heights = np.asarray(seconds, dtype=float), np.asarray(accuracies, dtype=float)
    reached = heights >= target
    if not reached.any():
        return math.nan
    first = int(reached.argmax())
    if first == 0:
        return float(times[0])
    share = (target - heights[first - 1]) / (heights[first] - heights[first - 1])
    return float(times[first - 1] + share * (times[first] - times[first - 1]))
