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
- variant: the strategy, and in parentheses the parameters in which it differs from its fellows in the table, and how it
  ran where that is not the usual way (see `variants`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal, get_args

import pandas as pd

from tmflow import palette
from tmflow.aborts import CLASSES
from tmflow.curves import first_at
from tmflow.errors import unknown
from tmflow.runner.runfile import NO_TIME
from tmflow.spec import AS_BEFORE, TrialSpec
from tmflow.stats import Interval, mean_interval, ratio_interval
from tmflow.strategy_parameters import PARAMETERS, parameters_of

Baseline = Literal["same", "tf_lock"]
BASELINES: dict[str, str] = {
    "same": "the same configuration with one worker",
    "tf_lock": "tf_lock with one worker",
}

CONTEXT = (
    "experiment",
    "scale",
    "definition_sha256",
    "platform",
    "platform_name",
    "hardware_threads",
    "evidence",
    "backend",
    "time_domain",
    "dataset_sha256",
)
POINT = (*CONTEXT, *TrialSpec.model_fields)
VARIANT = ("strategy", *PARAMETERS)
SERIES = (*VARIANT, "threads")
# How a trial ran, whatever its strategy, and the usual way. Runs that differ in it are never drawn in one panel.
WAYS = {"driver": TrialSpec.model_fields["driver"].default, **AS_BEFORE}
ROUND = ("campaign_uid", "round")

TARGETS = (0.90, 0.97)  # test accuracies whose time is asked for
TRANSACTIONAL = ("htm", "stm", "itm", "tle", "block_stm")  # strategies that try transactions
ANY = "any"  # the cause under which all aborts together are told
NUMBERED = ("iteration", "staleness")  # columns of a summary, beside those of a point, that are whole numbers
WHOLE = [name for name, field in TrialSpec.model_fields.items() if get_args(field.annotation) == (int, type(None))]
FEW = 2  # parameters that a name tells of each variant of a strategy; if more differ, it tells only what is unusual

NOTHING = Interval(math.nan, math.nan, math.nan, 0)
ENDED = {"timeout": "timed out"}  # where a status alone does not make a sentence

Estimate = Callable[[pd.DataFrame], tuple[Interval, str | None]]


def speedup(runs: pd.DataFrame, baseline: Baseline = "same") -> pd.DataFrame:
    """Speedup t(1)/t(w) of the workers' loop, each run against the baseline of its own round (see `BASELINES`)."""
    if baseline not in BASELINES:
        raise unknown("baseline", baseline, BASELINES)
    compared = ("threads", *VARIANT) if baseline == "tf_lock" else ("threads",)
    shared = [c for c in POINT if c not in compared] + [*ROUND]
    runs = _with_dataset(runs)
    ones = runs[(runs["threads"] == 1) & ((baseline == "same") | (runs["strategy"] == "tf_lock"))]
    ones = ones.loc[ones["status"] == "ok", [*shared, "loop_s", "disturbed"]].rename(
        columns={"loop_s": "baseline_s", "disturbed": "baseline_disturbed"}
    )
    paired = runs.merge(ones, how="left", on=shared, validate="many_to_one")
    paired["disturbed"] = _true(paired["disturbed"]) | _true(paired["baseline_disturbed"])

    def estimate(rounds: pd.DataFrame) -> tuple[Interval, str | None]:
        pairs = rounds[rounds["baseline_s"].notna()]
        if pairs.empty:
            return NOTHING, f"no round has {BASELINES[baseline]} to compare with"
        missing = len(rounds) - len(pairs)
        reason = f"{missing} of {len(rounds)} rounds with a result lack {BASELINES[baseline]}" if missing else None
        return ratio_interval(pairs["baseline_s"], pairs["loop_s"]), reason

    name = "speedup" if baseline == "same" else "speedup_vs_tf_lock"
    return _per_point(paired, name, "1", _only_with_time(estimate))


def step_time(runs: pd.DataFrame) -> pd.DataFrame:
    """Wall time of the workers' loop divided by the steps of all workers together, in microseconds.

    Geometric mean and log t interval, as for speedups: a time is never below 0.
    """

    def estimate(rounds: pd.DataFrame) -> tuple[Interval, str | None]:
        return ratio_interval(1e6 * rounds["loop_s"], rounds["iterations"]), None

    return _per_point(_with_dataset(runs), "step_time", "us", _only_with_time(estimate))


def accuracy(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy after the last step, a fraction. Bounds may leave [0, 1]: only a chart clips them."""
    return _per_point(_with_dataset(runs), "accuracy", "fraction", _mean_of("final_accuracy"))


def curve(runs: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy after `iteration` steps; `points` has the columns uid, iteration, accuracy.

    A point without a result has one row, its iteration NA. Runs that were not asked for a curve have none.
    """
    asked = _with_dataset(runs[runs["curve_points"] > 0])
    rows = _of_measured(asked, points[["uid", "iteration", "accuracy"]])
    return _per_point(rows, "accuracy_curve", "fraction", _mean_of("accuracy"), along="iteration")


def staleness(runs: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Share of a run's steps that saw exactly `staleness` updates by others, averaged over rounds.

    `counts` has the columns uid, staleness, steps (any number of rows for each worker). A value that a run
    never saw counts as a share of 0 in it; a run with a result but without any row was not measured and is left out.
    A point without a result has one row, its staleness NA.
    """
    steps = counts.groupby(["uid", "staleness"])["steps"].sum().unstack(fill_value=0)
    shares = steps.div(steps.sum(axis=1), axis=0).melt(value_name="share", ignore_index=False).reset_index()
    rows = _of_measured(_with_dataset(runs), shares)
    summary = _per_point(rows, "staleness", "fraction", _mean_of("share"), along="staleness")
    return summary[summary["estimate"] != 0].reset_index(drop=True)


def commits(runs: pd.DataFrame, transactions: pd.DataFrame) -> pd.DataFrame:
    """Share of a run's critical sections that committed as a transaction, the others having taken the mutex.

    This is the study's commits(w). `transactions` has the columns uid, commits, fallbacks, attempts: NA where unknown,
    and software transactions have no fallbacks. Strategies that try no transactions have no row.
    """
    known = transactions.dropna(subset="commits").set_index("uid").astype(float)
    share = known["commits"] / (known["commits"] + known["fallbacks"].fillna(0))
    rows = _of_measured(_of_transactions(runs), share.dropna().rename("share").reset_index())
    return _per_point(rows, "commits", "fraction", _mean_of("share"))


def failures(
    runs: pd.DataFrame, transactions: pd.DataFrame, aborts: pd.DataFrame, by: Literal["family", "class"] = "family"
) -> pd.DataFrame:
    """Share of a run's attempts that aborted, for each `cause` that occurs with its strategy, and for `ANY` of them.

    A cause is a family (`tmflow.aborts`), or a class of the study's figures by its own rule, which hardware
    transactions alone have. `transactions` is as for `commits`, and a run whose attempts are unknown has no row;
    `aborts` has the columns uid, mechanism, family, raw_code, n. A point without a result has one row, its cause NA.
    """
    tried = _of_transactions(runs)
    if by == "class":
        tried, aborts = tried[tried["strategy"] == "htm"], in_classes(aborts)
    attempts = transactions.set_index("uid")["attempts"].dropna().astype(float)
    counts = aborts.groupby(["uid", by])["n"].sum().unstack(fill_value=0)
    counts[ANY] = counts.sum(axis="columns")
    shares = counts.reindex(attempts[attempts > 0].index, fill_value=0).div(attempts[attempts > 0], axis=0)
    shares = shares.melt(var_name="cause", value_name="share", ignore_index=False).reset_index()
    measure = "failures" if by == "class" else "causes"
    summary = _per_point(_of_measured(tried, shares), measure, "fraction", _mean_of("share"), along="cause")
    occurs = summary.groupby(["strategy", "cause"], dropna=False)["estimate"].transform("max") != 0
    return summary[occurs | (summary["cause"] == ANY)].reset_index(drop=True)


def in_classes(aborts: pd.DataFrame, rule: Literal["study", "bits"] = "study") -> pd.DataFrame:
    """Those aborts that have a `class` of the study's figures, by its rule or by what the bits of the status say."""
    known = aborts[aborts["mechanism"].isin(list(CLASSES))]
    of, status = known["mechanism"], known["raw_code"].map(lambda code: int(code, 16))
    index = ("study", "bits").index(rule)
    return known.assign(**{"class": [CLASSES[m][index](code) for m, code in zip(of, status, strict=True)]})


def classes(runs: pd.DataFrame, aborts: pd.DataFrame) -> pd.DataFrame:
    """platform, evidence, profile, mechanism, class, study, bits: aborts in the classes of the study's figures.

    Counted by its rule, and by what the bits of the raw status say (`tmflow.aborts`); software's have no class.
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
    asked = _with_dataset(runs[runs["curve_points"] > 0])
    on_the_way = points.sort_values("iteration").groupby("uid")
    summaries = []
    for target in targets:
        reached = [(uid, first_at(target, curve["elapsed_s"], curve["accuracy"])) for uid, curve in on_the_way]
        rows = _of_measured(asked, pd.DataFrame(reached, columns=["uid", "reached_s"]))
        estimate = _only_with_time(partial(_mean_time, target=target))
        summaries.append(_per_point(rows, "time_to_accuracy", "s", estimate).assign(target=target))
    return pd.concat(summaries, ignore_index=True)


def lost(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the updates of elements that were lost; runs measured in full alone, `full` as their query gives it."""
    return _of_full(runs, full, "lost")


def torn(runs: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Share of the reads of variables that caught an update under way; as `lost`."""
    return _of_full(runs, full, "torn")


def headline(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of each strategy at its highest number of threads that is not oversubscribed, as far as is known."""
    fits = summary[~summary["oversubscribed"].fillna(False).astype(bool)]
    keys = [column for column in POINT if column != "threads"]
    return fits.loc[fits.groupby(keys, dropna=False, sort=False)["threads"].idxmax()].reset_index(drop=True)


def panels(summary: pd.DataFrame, within: tuple[str, ...] = SERIES) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split a summary into parts that one chart may show: only the columns `within` differ inside a part.

    Yields (label, part); the label names what tells the part from the others, and is empty when there is one part. In
    a part, variants are named by what tells them apart there; where none may share a part, its label begins with the
    variant's name.
    """
    apart = "strategy" not in within
    keys = [c for c in (*POINT, "target") if c in summary and c not in within and c not in VARIANT]
    varying = [c for c in keys if c != "platform_name" and summary[c].nunique(dropna=False) > 1]
    for _, part in summary.groupby(keys, dropna=False, sort=False):
        first = part.iloc[0]
        told = [
            f"{name_of(str(column))} {_short(str(column), value)}" for column, value in first[varying].dropna().items()
        ]
        named = part.assign(variant=variants(part))
        for variant, rows in named.groupby("variant", sort=False) if apart else [("", named)]:
            yield ", ".join(filter(None, (str(variant), *told))), rows


def variants(table: pd.DataFrame) -> pd.Series:
    """The name of each row's variant: its strategy, with those parameters that differ among rows of that strategy.

    Where more than `FEW` do, only those are told that are not what they would be if not given, as long as that tells
    the variants apart (it does not where a run is older than a parameter). Of the `WAYS` in which rows of a strategy
    differ, those are told that are not the usual ones.
    """
    names = table["strategy"].astype(object)
    for strategy, rows in table.groupby("strategy", sort=False):
        varying = [name for name in PARAMETERS if rows[name].nunique(dropna=False) > 1]
        ways = [name for name in WAYS if rows[name].nunique() > 1]
        if varying or ways:
            groups = [alike for _, alike in rows.groupby([*varying, *ways], dropna=False, sort=False)]
            another = [{way: row[way] for way in ways if row[way] != WAYS[way]} for row in (g.iloc[0] for g in groups)]
            pairs = list(zip((alike.iloc[0] for alike in groups), another, strict=True))
            told = [_told(row[varying].dropna().to_dict() | way) for row, way in pairs]
            short = [_told(unusual(row, varying) | way) for row, way in pairs]
            if len(varying) > FEW and len(set(short)) == len(short):
                told = short
            for alike, parameters in zip(groups, told, strict=True):
                names[alike.index] = f"{strategy}{parameters}"
    return names.astype("str")


def _told(parameters: dict[Any, Any]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in parameters.items())})" if parameters else ""


def unusual(row: pd.Series, names: Iterable[str] = PARAMETERS) -> dict[str, Any]:
    """Of these parameters those that apply to the strategy of a row and are not what they would be if not given."""
    usual = parameters_of(row["strategy"], row["spending"])
    told = row[[*names]].dropna()
    return {str(name): value for name, value in told.items() if value != usual.get(str(name))}


def name_of(column: str) -> str:
    """A column as it reads in a sentence."""
    return column.removesuffix("_sha256").replace("_", " ")


def _short(column: str, value: Any) -> str:
    return str(value)[:8] if column.endswith("_sha256") else str(value)


def _with_dataset(runs: pd.DataFrame) -> pd.DataFrame:
    """A run that ended before it had read its dataset has no hash of it: it gets that of its fellows, if they agree."""
    fellows = runs.groupby([c for c in CONTEXT if c != "dataset_sha256"] + ["dataset"], dropna=False)["dataset_sha256"]
    agreed = fellows.transform("first").where(fellows.transform("nunique") == 1)
    unread = runs["dataset_sha256"].isna() & (runs["status"] != "ok")
    return runs.assign(dataset_sha256=runs["dataset_sha256"].where(~unread, agreed))


def _of_transactions(runs: pd.DataFrame) -> pd.DataFrame:
    return _with_dataset(runs[runs["strategy"].isin(TRANSACTIONAL)])


def _of_measured(runs: pd.DataFrame, details: pd.DataFrame) -> pd.DataFrame:
    """The details of the runs that have a result, each with its run; and the runs that have none."""
    ok = runs["status"] == "ok"
    return pd.concat([runs[ok].merge(details, on="uid", validate="one_to_many"), runs[~ok]])


def _of_full(runs: pd.DataFrame, full: pd.DataFrame, what: str) -> pd.DataFrame:
    rows = _of_measured(_with_dataset(runs[runs["measures"] == "full"]), full[["uid", f"{what}_fraction"]])

    def estimate(rounds: pd.DataFrame) -> tuple[Interval, str | None]:
        known = rounds[f"{what}_fraction"].dropna()
        return (mean_interval(known), None) if len(known) else (NOTHING, "not measured under this strategy")

    return _per_point(rows, what, "fraction", estimate)


def _mean_time(rounds: pd.DataFrame, target: float) -> tuple[Interval, str | None]:
    never = int(rounds["reached_s"].isna().sum())
    if never:
        return NOTHING, f"{never} of {len(rounds)} rounds never reached {target:.0%}"
    return ratio_interval(rounds["reached_s"], [1.0] * len(rounds)), None


def _mean_of(column: str) -> Estimate:
    return lambda rounds: (mean_interval(rounds[column]), None)


def _only_with_time(estimate: Estimate) -> Estimate:
    """Emulated runs never show time: their estimate is missing, and says why."""

    def guarded(rounds: pd.DataFrame) -> tuple[Interval, str | None]:
        return (NOTHING, NO_TIME) if rounds["evidence"].iloc[0] == "emulated" else estimate(rounds)

    return guarded


def _per_point(
    rows: pd.DataFrame, measure: str, unit: str, estimate: Estimate, along: str | None = None
) -> pd.DataFrame:
    """One summary row for each point (and each value of the column `along`), ordered by strategy and threads."""
    summary = []
    for key, point in rows.groupby([*POINT], dropna=False, sort=False):
        lost = _lost(point)
        results = point[point["status"] == "ok"]
        parts = results.groupby(along) if along else [(None, results)]
        for value, rounds in parts if len(results) else [(None, results)]:
            interval, reason = estimate(rounds) if len(rounds) else (NOTHING, None)
            summary.append(
                {
                    **dict(zip(POINT, key, strict=True)),
                    **({along: value} if along else {}),
                    "measure": measure,
                    "unit": unit,
                    "estimate": interval.estimate,
                    "low": interval.low,
                    "high": interval.high,
                    "rounds": interval.n,
                    "disturbed_rounds": int(_true(rounds["disturbed"]).sum()),
                    "reason": "; ".join(filter(None, (lost, reason))) or None,
                    "last_run_utc": point["started_at_utc"].max(),
                }
            )
    keys = [*POINT, *([along] if along else [])]
    columns = [*keys, "measure", "unit", "estimate", "low", "high", "rounds", "disturbed_rounds", "reason"]
    table = pd.DataFrame(summary, columns=[*columns, "last_run_utc"])
    if along in NUMBERED:
        table[along] = table[along].astype("Int64")
    table[WHOLE] = table[WHOLE].astype("Int64")
    table["variant"] = variants(table)
    table["oversubscribed"] = table["threads"].astype("Int64") > table["hardware_threads"].astype("Int64")
    order = ["experiment", "platform", "evidence", *WAYS, *SERIES, *([along] if along else [])]
    rank = {strategy: place for place, strategy in enumerate(palette.ordered(table["strategy"]))}
    return table.sort_values(
        order, kind="stable", ignore_index=True, key=lambda c: c.map(rank) if c.name == "strategy" else c
    )


def _lost(point: pd.DataFrame) -> str | None:
    """How the rounds of a point that have no result ended, and why; None where all have one."""
    rounds = point.drop_duplicates("uid")
    lost = rounds[rounds["status"] != "ok"]
    ends = Counter(zip(lost["status"].replace(ENDED), lost["reason"], strict=True))
    if len(ends) == 1 and len(lost) == len(rounds):
        ((ended, why),) = ends
        return f"{ended}: {why}"
    return "; ".join(f"{n} of {len(rounds)} rounds {ended}: {why}" for (ended, why), n in ends.items()) or None


def _true(flags: pd.Series) -> pd.Series:
    """Flags with unknown taken as not set."""
    return flags.astype("boolean").fillna(False)
