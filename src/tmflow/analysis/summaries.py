"""Summaries of runs: tidy tables with one row per point and an interval over its rounds.

Every function takes runs of any status, as `store.queries.runs` returns them, and returns one row for each distinct
combination of `POINT`. The repeats of a round are averaged to one value (see `repeats`). A point is never pooled over
platform, evidence, experiment definition, scale or any factor. A point without a result has a row with the reason. The
columns are those of `POINT`, then

- measure, unit: the measure and the unit of `estimate`, `low` and `high`;
- estimate, low, high: the estimate and its 95 % interval; the bounds are NaN for a single round, and the estimate is
  NaN if there is nothing to estimate;
- rounds: rounds in the estimate; results: how many rounds have a result, and how the others ended, such as
  "5 of 6 (1 diverged)"; disturbed_rounds: rounds with a result that ran on a disturbed machine;
- reason: why the estimate, or some of its rounds, is missing; None if nothing is missing;
- oversubscribed: more workers than hardware threads that they may use; NA if that number is unknown;
- last_run_utc: the start of the newest run of the point;
- software: label of the software that measured the rounds with a result, several joined by " + "; NA without a result;
- runs_left_out (if the runs have it): the number of runs by other software versions, with any status, in the sample of
  the point, which is the experiment on one machine (`analysis.versions`);
- variant: the strategy, and in parentheses the parameters in which it differs from the strategy's other variants in the
  table, and the unusual ways in which it ran (see `variants.variants`);
- median, median_low, median_high (times and speedups only): the median of the rounds in the estimate, with its 95 %
  interval by rank; the bounds are NaN for fewer than six rounds;
- farthest (with a median): the largest factor between a round and the median. A stall makes it large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from tmflow.analysis.repeats import average_repeats
from tmflow.analysis.rounds import NOTHING, Estimate, Rounds, of_measured, pair_by_round, per_point, with_dataset
from tmflow.analysis.run_table import POINT, VARIANT
from tmflow.analysis.stats import Interval, log_ratios, mean_interval, ratio_interval, share_interval, within_shares
from tmflow.analysis.variants import has_defaults, variants
from tmflow.base.errors import unknown
from tmflow.base.text import percent
from tmflow.runfile.record import NO_TIME
from tmflow.spec.abort_codes import CLASSES, describe, status_of
from tmflow.spec.factors import ADVISED_DRIVERS

Baseline = Literal["same", "tf_lock"]
BASELINES: dict[str, str] = {
    "same": "the same configuration with one worker",
    "tf_lock": "tf_lock with one worker",
}

TARGETS = (0.90, 0.97)  # target test accuracies
TRANSACTIONAL = ("htm", "htm_if_fits", "stm", "itm", "tle", "block_stm")  # strategies that try transactions
ONE_BY_ONE = 4  # up to this staleness, each range is a single value
ANY = "any"  # stands for all causes together
BY = {"class": "failures", "family": "causes", "raw_code": "raw_causes"}  # the measure for each classification


def speedup(runs: pd.DataFrame, baseline: Baseline = "same") -> pd.DataFrame:
    """Speedup t(1)/t(w) of the workers' loop, each run relative to the baseline of its round (see `BASELINES`)."""
    if baseline not in BASELINES:
        raise unknown("baseline", baseline, BASELINES)
    compared = ("threads", *VARIANT) if baseline == "tf_lock" else ("threads",)
    shared = [c for c in POINT if c not in compared]
    runs = average_repeats(with_dataset(runs))
    ones = (runs["threads"] == 1) & ((baseline == "same") | (runs["strategy"] == "tf_lock")) & (runs["status"] == "ok")
    paired = pair_by_round(runs, ones, shared, "loop_s", "baseline_s")

    def logs(rounds: Rounds) -> NDArray[np.float64]:
        paired = ~np.isnan(rounds["baseline_s"])
        return log_ratios(rounds["baseline_s"][paired], rounds["loop_s"][paired])

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        paired = ~np.isnan(rounds["baseline_s"])
        if not paired.any():
            return NOTHING, f"no round has {BASELINES[baseline]} to compare with"
        missing = int((~paired).sum())
        reason = f"{missing} of {len(paired)} rounds with a result lack {BASELINES[baseline]}" if missing else None
        return ratio_interval(rounds["baseline_s"][paired], rounds["loop_s"][paired]), reason

    name = "speedup" if baseline == "same" else "speedup_vs_tf_lock"
    return per_point(paired, name, "1", _only_with_time(estimate), logs=logs)


def step_time(runs: pd.DataFrame) -> pd.DataFrame:
    """Wall time of the workers' loop divided by the steps of all workers together, in microseconds.

    Geometric mean and log t interval, as for speedups: a time is never below 0.
    """
    return _quotient(runs, "step_time", "us", lambda of: (of["loop_s"], of["iterations"] / 1e6))


def grains(runs: pd.DataFrame) -> pd.Series:
    """The elements of a critical section of each run: its chunk or its block; NA where it is the whole update.

    `block_stm` has blocks, but holds the locks of all of them during the whole update; `htm_if_fits` has sections of
    both sizes. 0 where the blocks fit the variable, whatever their length.
    """
    chunk, block = runs["chunk"].astype("Int64"), runs["block"].astype("Int64")
    return chunk.where(chunk > 0).fillna(block.where(~runs["strategy"].isin(("block_stm", "htm_if_fits"))))


def time_over_lock(runs: pd.DataFrame) -> pd.DataFrame:
    """Time of the workers' loop over that of `lock` with critical sections of as many elements, by that `grain`.

    Runs whose critical section is the whole update have no row (`grains`). Each run is compared with the lock of its
    round, with the same number of threads.
    """
    runs = average_repeats(with_dataset(runs))
    runs = runs.assign(grain=grains(runs))
    runs = runs[runs["grain"].fillna(0) > 0]
    locks = has_defaults(runs.assign(chunk=None), "lock") & (runs["status"] == "ok")
    shared = [name for name in POINT if name not in VARIANT]
    paired = pair_by_round(runs, locks, [*shared, "grain"], "loop_s", "lock_s")

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        both = ~np.isnan(rounds["lock_s"])
        missing = int((~both).sum())
        reason = f"{missing} of {len(both)} rounds with a result lack lock" if missing else None
        return (ratio_interval(rounds["loop_s"][both], rounds["lock_s"][both]) if both.any() else NOTHING), reason

    summary = per_point(paired, "time_over_lock", "1", _only_with_time(estimate))
    summary = summary.assign(grain=grains(summary))
    return summary.assign(variant=variants(summary))


def node_time(runs: pd.DataFrame) -> pd.DataFrame:
    """Time of a step divided by the nodes of its graph, in microseconds; only of models of small operations."""
    with_nodes = runs[runs["nodes"].notna()]
    return _quotient(
        with_nodes, "node_time", "us", lambda of: (of["loop_s"], of["iterations"] * of["nodes"].astype(float) / 1e6)
    )


def image_rate(runs: pd.DataFrame) -> pd.DataFrame:
    """Images that all workers together process per second of their loop."""
    return _quotient(runs, "image_rate", "images/s", lambda of: (of["iterations"] * of["batch"], of["loop_s"]))


def _quotient(
    runs: pd.DataFrame, measure: str, unit: str, parts: Callable[[Rounds], tuple[ArrayLike, ArrayLike]]
) -> pd.DataFrame:
    """The geometric mean of one number over another of each run, with its log t interval; none of emulated runs."""

    def logs(rounds: Rounds) -> NDArray[np.float64]:
        return log_ratios(*parts(rounds))

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        return ratio_interval(*parts(rounds)), None

    return per_point(with_dataset(runs), measure, unit, _only_with_time(estimate), logs=logs)


def accuracy(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy after the last step, a fraction; none of runs that are only timed."""
    runs = runs[~runs["driver"].isin(ADVISED_DRIVERS)]
    return per_point(with_dataset(runs), "accuracy", "fraction", _mean_of("final_accuracy"))


def curve(runs: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy after `iteration` steps; `points` has the columns uid, iteration, accuracy.

    A point without a result has one row with NA as iteration. Runs that record no curve have no rows.
    """
    recorded = with_dataset(runs[runs["curve_points"] > 0])
    rows = of_measured(recorded, points[["uid", "iteration", "accuracy"]])
    return per_point(rows, "accuracy_curve", "fraction", _mean_of("accuracy"), along="iteration")


def staleness(runs: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Share of a run's steps that saw `staleness` to `up_to` updates by other workers, averaged over rounds.

    The two limits are equal up to `ONE_BY_ONE`; above it the ranges double: 5 to 8, 9 to 16. `counts` has the columns
    uid, staleness, steps (any number of rows for each worker). A range without steps has a share of 0. A run with a
    result but without a row in `counts` was not measured and is left out. A point without a result has one row with NA
    as staleness.
    """
    first = counts["staleness"].map(lambda staleness: range_at(place_of(int(staleness)))[0]).astype("int64")
    steps = counts.assign(staleness=first).groupby(["uid", "staleness"])["steps"].sum().unstack(fill_value=0)
    shares = steps.div(steps.sum(axis=1), axis=0).melt(value_name="share", ignore_index=False).reset_index()
    rows = of_measured(with_dataset(runs), shares)
    summary = per_point(rows, "staleness", "fraction", _mean_of("share"), along="staleness")
    summary = summary[summary["estimate"] != 0].reset_index(drop=True)
    last = summary["staleness"].map(lambda staleness: range_at(place_of(int(staleness)))[1], na_action="ignore")
    return summary.assign(up_to=last.astype("Int64"))


def mean_staleness(runs: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Mean staleness of a run's steps, averaged over rounds; `counts` as for `staleness`."""
    weighted = counts.assign(updates=counts["staleness"] * counts["steps"])
    totals = weighted.groupby("uid")[["updates", "steps"]].sum()
    means = (totals["updates"] / totals["steps"].where(totals["steps"] > 0)).dropna().rename("mean").reset_index()

    return per_point(of_measured(with_dataset(runs), means), "mean_staleness", "updates", _not_negative("mean"))


def p95_staleness(runs: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """95th percentile of the staleness of a run's steps, averaged over rounds; `counts` as for `staleness`.

    It is the least staleness that 95 % of the steps of all workers together do not exceed.
    """
    steps = counts.groupby(["uid", "staleness"])["steps"].sum().reset_index()
    of_run = steps.groupby("uid")["steps"]
    reached = steps[of_run.cumsum() >= 0.95 * of_run.transform("sum")]  # sorted by staleness
    percentiles = reached.groupby("uid")["staleness"].first().rename("p95").reset_index()
    return per_point(of_measured(with_dataset(runs), percentiles), "p95_staleness", "updates", _not_negative("p95"))


def _not_negative(column: str) -> Estimate:
    """The estimator of the mean of a value that is never below 0."""

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        mean = mean_interval(rounds[column])
        return mean._replace(low=max(mean.low, 0.0)), None  # NaN stays NaN

    return estimate


def place_of(staleness: int) -> int:
    """The index, from 0, of the range that contains this staleness."""
    return staleness if staleness <= ONE_BY_ONE else ONE_BY_ONE + (-(-staleness // ONE_BY_ONE) - 1).bit_length()


def range_at(place: int) -> tuple[int, int]:
    """The first and the last staleness of the range with this index."""
    if place <= ONE_BY_ONE:
        return place, place
    last = ONE_BY_ONE * 2 ** (place - ONE_BY_ONE)
    return last // 2 + 1, last


def commits(runs: pd.DataFrame, transactions: pd.DataFrame) -> pd.DataFrame:
    """Share of a run's critical sections that committed as a transaction; the others took the mutex.

    This is one reading of the study's commits(w); the other is the share of attempts. `transactions` has the columns
    uid, commits, fallbacks, attempts, NA where unknown; software transactions have no fallbacks. Strategies without
    transactions have no row.
    """
    counts = transactions.dropna(subset="commits").set_index("uid").astype(float)
    share = counts["commits"] / (counts["commits"] + counts["fallbacks"].fillna(0))
    rows = of_measured(_of_transactions(runs), share.dropna().rename("share").reset_index())
    return per_point(rows, "commits", "fraction", _mean_of("share"))


def failures(
    runs: pd.DataFrame,
    transactions: pd.DataFrame,
    aborts: pd.DataFrame,
    by: Literal["family", "class", "raw_code"] = "family",
) -> pd.DataFrame:
    """Share of a run's attempts that aborted, for each `cause` that occurs with its strategy, and for `ANY` cause.

    A cause is a family (`tmflow.spec.abort_codes`), a class of the study's figures by the study's rule (hardware
    transactions only), or a raw code with the meaning of its bits. `transactions` is as for `commits`; a run whose
    number of attempts is unknown has no row. `aborts` has the columns uid, mechanism, family, raw_code, n. A point
    without a result has one row with NA as cause.
    """
    tried = _of_transactions(runs)
    if by == "class":
        tried, aborts = tried[tried["strategy"] == "htm"], in_classes(aborts)
    if by == "raw_code":
        statuses = zip(aborts["mechanism"], aborts["raw_code"], strict=True)
        aborts = aborts.assign(raw_code=[f"{code}: {describe(of, status_of(code))}" for of, code in statuses])
    attempts = transactions.set_index("uid")["attempts"].dropna().astype(float)
    counts = aborts.groupby(["uid", by])["n"].sum().unstack(fill_value=0)
    counts[ANY] = counts.sum(axis="columns")
    shares = counts.reindex(attempts[attempts > 0].index, fill_value=0).div(attempts[attempts > 0], axis=0)
    shares = shares.melt(var_name="cause", value_name="share", ignore_index=False).reset_index()
    summary = per_point(of_measured(tried, shares), BY[by], "fraction", _mean_of("share"), along="cause")
    occurs = summary.groupby(["strategy", "cause"], dropna=False)["estimate"].transform("max") != 0
    return summary[occurs | (summary["cause"] == ANY)].reset_index(drop=True)


def in_classes(aborts: pd.DataFrame, rule: Literal["study", "bits"] = "study") -> pd.DataFrame:
    """Add the `class` of the study's figures, by the study's rule or the status bits; drop unclassified aborts."""
    classified = aborts[aborts["mechanism"].isin(list(CLASSES))]
    mechanisms, statuses = classified["mechanism"], classified["raw_code"].map(status_of)
    index = ("study", "bits").index(rule)
    return classified.assign(
        **{"class": [CLASSES[m][index](code) for m, code in zip(mechanisms, statuses, strict=True)]}
    )


def classes(runs: pd.DataFrame, aborts: pd.DataFrame) -> pd.DataFrame:
    """Count aborts in the classes of the study's figures, by platform, evidence, profile, mechanism and class.

    The column `study` counts them by the study's rule, `bits` by the bits of the raw status
    (`tmflow.spec.abort_codes`). Aborts of software transactions have no class. `aborts` has the columns uid, mechanism,
    raw_code, n.
    """
    keys = ["platform", "evidence", "profile"]
    labelled = aborts.merge(runs[["uid", *keys]], on="uid")
    counts = {
        rule: in_classes(labelled, rule).groupby([*keys, "mechanism", "class"], dropna=False)["n"].sum()
        for rule in ("study", "bits")
    }
    return pd.DataFrame(counts).fillna(0).astype(int).reset_index()


def time_to_accuracy(runs: pd.DataFrame, points: pd.DataFrame, targets: Iterable[float] = TARGETS) -> pd.DataFrame:
    """Seconds of the workers' loop until the test accuracy first reached each `target`, a fraction.

    `points` has the columns uid, iteration, elapsed_s, accuracy; `first_at` interpolates the curve. Geometric mean and
    log t interval. If a round never reached the target, there is no estimate, because the mean of the others would be
    too low; the reason gives the number of such rounds.
    """
    recorded = with_dataset(runs[runs["curve_points"] > 0])
    run_curves = points.sort_values("iteration").groupby("uid")

    def summarise(target: float) -> pd.DataFrame:
        def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
            reached = rounds["reached_s"]
            if never := int(np.isnan(reached).sum()):
                return NOTHING, f"{never} of {len(reached)} rounds never reached {percent(target)}"
            return ratio_interval(reached, np.ones_like(reached)), None

        reached = [(uid, first_at(target, curve["elapsed_s"], curve["accuracy"])) for uid, curve in run_curves]
        rows = of_measured(recorded, pd.DataFrame(reached, columns=["uid", "reached_s"]))
        return per_point(rows, "time_to_accuracy", "s", _only_with_time(estimate)).assign(target=target)

    return pd.concat([summarise(target) for target in targets], ignore_index=True)


def phases(runs: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Microseconds of a worker's step in each `phase`, averaged over rounds; only runs of clusters that traced steps.

    `times` has the columns uid, phase, phase_us (see `queries.phases`). The means are arithmetic, so that phases add
    up. A point without a result has one row with NA as phase.
    """
    rows = of_measured(with_dataset(runs[runs["driver"] == "cluster"]), times[["uid", "phase", "phase_us"]])
    return per_point(rows, "phases", "us", _not_negative("phase_us"), along="phase")


def step_transfers(runs: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """Tensors that a worker's step transfers between tasks, in both directions, averaged over rounds.

    `phases` has the columns uid, phase, transfers, bytes (see `queries.phases`).
    """
    return _of_traffic(runs, phases, "transfers", "transfers")


def step_bytes(runs: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """Bytes of the tensors that a worker's step transfers between tasks; see `step_transfers`."""
    return _of_traffic(runs, phases, "bytes", "B")


def _of_traffic(runs: pd.DataFrame, phases: pd.DataFrame, column: str, unit: str) -> pd.DataFrame:
    totals = phases.groupby("uid")[column].sum(min_count=1).dropna().reset_index()
    rows = of_measured(with_dataset(runs[runs["driver"] == "cluster"]), totals)
    return per_point(rows, f"step_{column}", unit, _not_negative(column))


def lost(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the element updates that were lost, in runs with full measures; `full`: see `queries.full_measures`.

    The rounds are the independent samples, because updates are lost in bursts. See `stats.share_interval`.
    """
    return _of_full(runs, full, "lost")


def torn(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the reads of variables that overlapped an update (torn reads); see `lost`."""
    return _of_full(runs, full, "torn")


def inconsistent(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the elements whose weight contains other updates than the arrays of the optimiser; see `lost`."""
    return _of_full(runs, full, "inconsistent")


def lock_waited(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the time of all workers together that they spent waiting for locks of the strategy; see `lost`."""
    return _of_full(runs, full, "lock_waited")


def lock_held(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the time of all workers together for which they held locks of the strategy; see `lost`."""
    return _of_full(runs, full, "lock_held")


def _of_transactions(runs: pd.DataFrame) -> pd.DataFrame:
    return with_dataset(runs[runs["strategy"].isin(TRANSACTIONAL)])


def _of_full(runs: pd.DataFrame, full: pd.DataFrame, what: str) -> pd.DataFrame:
    rows = of_measured(with_dataset(runs[runs["measures"] == "full"]), full[["uid", f"{what}_fraction"]])

    def estimate(rounds: Rounds) -> tuple[Interval, str | None]:
        share = rounds[f"{what}_fraction"]
        measured = share[~np.isnan(share)]
        if not len(measured):
            return NOTHING, "not measured under this strategy"
        missing = len(share) - len(measured)
        reason = f"{missing} of {len(share)} rounds with a result did not measure it" if missing else None
        return share_interval(measured), reason

    return per_point(rows, what, "fraction", estimate)


def _mean_of(column: str) -> Estimate:
    """The estimator of the mean of a share, with bounds in [0, 1]."""
    return lambda rounds: (within_shares(mean_interval(rounds[column])), None)


def _only_with_time(estimate: Estimate) -> Estimate:
    """Withhold the estimate for emulated runs, whose times measure the emulator, and give the reason."""

    def guarded(rounds: Rounds) -> tuple[Interval, str | None]:
        return (NOTHING, NO_TIME) if rounds["evidence"][0] == "emulated" else estimate(rounds)

    return guarded


def first_at(target: float, seconds: ArrayLike, accuracies: ArrayLike) -> float:
    """The time at which a curve, sorted by time, first reached a target; NaN if it never did.

    Interpolates linearly between the last point below the target and the first point that reaches it. If the first
    point of the curve reaches the target, its time is the result.
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
