"""The three answers: the runs that they use, and the sentences for each case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from tests.support.frames import ended, run
from tmflow.analysis import baseline
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.base.paths import project_root
from tmflow.claims.schema import load_claims
from tmflow.claims.selection import Missing
from tmflow.reports import answers, comparisons, narrative
from tmflow.reports.comparisons import OF_ACCURACY, OF_ALL, OF_LOSSES, OF_STUDY
from tmflow.study.config import load_study

NOISE = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0)
HTM = {"strategy": "htm", "provider": "rtm"}
TLE = {"strategy": "tle", "tunables": "custom"}
BACKOFF = {"strategy": "stm", "manager": "backoff"}
FUSED = {"strategy": "lock", "kernel": "fused"}
CONSISTENCIES = {"lock": "tensor", "tf_lock": "tensor", "striped": "block", "combining": "block", "nolock": "none"}


def runs_of(
    comparison: comparisons.Comparison,
    speeds: Mapping[str, float],
    threads: int = 4,
    rounds: int = 6,
    noise: float = 1.0,
    **changes: Any,
) -> pd.DataFrame:
    """Each strategy this many times as fast as the baseline, with independent noise in each round."""
    usual = {"experiment": comparison.experiment, "model": "mnist_softmax", "software": "tmflow 1"}
    where = comparison.factors
    if where.get("model") == "mnist_deep":
        where |= {"dropout_keep": 0.5}
    return pd.DataFrame(
        [
            run(
                **{**usual, **where, **named(strategy), "threads": threads, "round": r, **changes},
                loop_s=r / speed * (1.0 if strategy == comparison.baseline else NOISE[r % 6] ** noise),
            )
            for strategy, speed in {comparison.baseline: 1.0, **speeds}.items()
            for r in range(1, rounds + 1)
        ]
    )


def answer_transactions(runs: pd.DataFrame, counts: pd.DataFrame | None = None) -> answers.Answer:
    return answers.answer_transactions([runs], "1234abcd", None if counts is None else lambda _: counts)


def answer_strategies(runs: pd.DataFrame, lost: str, consistencies: Mapping[str, str | None]) -> answers.Answer:
    return answers.answer_strategies([runs], lost, consistencies, "1234abcd")


def answer_accuracy(runs: pd.DataFrame) -> answers.Answer:
    return answers.answer_accuracy([runs], "1234abcd")


def named(strategy: str) -> dict[str, Any]:
    return {"htm": HTM, "stm backoff": BACKOFF, "tle": TLE, "lock fused": FUSED}.get(strategy, {"strategy": strategy})


@pytest.mark.parametrize(
    ("speeds", "short", "said"),
    [
        ({"htm": 1.4, "stm": 0.1}, "Here it does: htm beats the lock.", "htm 1.40 [1.38, 1.42], significantly faster."),
        ({"htm": 0.8, "stm": 0.1}, "Not here.", "htm 0.800 [0.788, 0.812], significantly slower."),
        ({"htm": 1.0, "stm": 0.1}, "Not here.", ", equivalent within 5 %."),
        ({"htm": 1.04, "stm": 0.1}, "No benefit shown.", "no significant difference."),
        ({"stm": 0.1}, "Not in software; hardware transactions did not run.", "Hardware transactions were not run."),
        (
            {"stm": 1.4, "striped": 1.4, "spin": 1.1},
            "Not needed here: stm beats tf_lock, but striped is not significantly slower.",
            "Software transactions",
        ),
        ({"stm": 1.4, "striped": 1.1, "tf_nolock": 1.5}, "Here it does: stm beats the lock.", "tf_nolock 1.50"),
        ({"tf_nolock": 1.4}, "No transactions ran here.", "tf_nolock 1.40 [1.38, 1.42], significantly faster."),
    ],
)
def test_whether_transactions_are_it(speeds: dict[str, float], short: str, said: str) -> None:
    noise = 8.0 if speeds.get("htm") == 1.04 else 1.0
    answer = answer_transactions(runs_of(OF_STUDY, speeds, noise=noise))
    assert answer.short == short
    assert said in " ".join(answer.sentences)
    assert answer.rests_on == "6 rounds on A box: fig-4.10; mnist_softmax, batch 1, 4 workers, session driver."


def test_variants_told_alike_stand_together() -> None:
    answer = answer_transactions(runs_of(OF_STUDY, {"stm": 0.1, "stm backoff": 0.1}))
    assert "stm (manager backoff) 0.1000 [0.0985, 0.1015] and stm 0.1000" in answer.sentences[1]


def test_the_answer_says_how_much_of_the_model_transactions_updated() -> None:
    runs = runs_of(OF_STUDY, {"htm": 1.0, "stm": 0.1})
    of_htm = runs.loc[runs["strategy"] == "htm", "uid"]
    counts = pd.DataFrame(
        [(uid, *row) for uid in of_htm for row in (("W", 10, 0, 10), ("b", 10, 10, 0))],
        columns=["uid", "variable", "updates", "commits", "fallbacks"],
    )
    answer = answer_transactions(runs, counts)
    assert answer.sentences[1] == "Of the updated elements, committed transactions updated: htm 0.127 %."  # 10 of 7,850
    without = answer_transactions(runs[runs["strategy"] != "htm"], counts)
    assert not any("elements" in sentence for sentence in without.sentences)


def test_a_faster_elision_of_another_mutex_is_no_answer() -> None:
    answer = answer_transactions(runs_of(OF_STUDY, {"htm": 0.8, "stm": 0.1, "tle": 1.4}))
    assert answer.short == "Not here."
    assert "another mutex" in answer.sentences[-1]


def test_what_is_not_comparable_is_said_and_not_drawn() -> None:
    answer = answer_transactions(runs_of(OF_STUDY, {"htm": 0.8, "tle": 1.4}))
    assert "Not comparable: tle 1.40 [1.38, 1.42]" in answer.sentences[-1]
    assert answer.figure is not None
    assert set(answer.figure.summary["strategy"]) == {"htm"}


def test_another_experiment_answers_if_the_preferred_one_is_missing_or_has_one_worker() -> None:
    nothing, alone = runs_of(OF_ALL, {})[:0], runs_of(OF_ALL, {"striped": 3.0}, threads=1)
    small = runs_of(comparisons.OF_ALL_SMALL, {"striped": 2.0}, batch=1)
    for first in (nothing, alone):
        answer = answers.answer_strategies([first, small], "", CONSISTENCIES, "1234abcd")
        assert answer.short == "striped: no lost updates, significantly faster than lock."
        assert answer.setting == "mnist_softmax, batch 1, 4 workers, session driver"
        assert answer.view["model"] == "mnist_softmax"
    of_one = answers.answer_strategies([alone, nothing], "", CONSISTENCIES, "1234abcd")
    assert of_one.short == narrative.NOT_TESTED
    missing = answers.answer_strategies([nothing, nothing], "", CONSISTENCIES, "1234abcd")
    assert missing.short == narrative.NOTHING
    assert "consistency-for-free" in missing.sentences[0]
    assert missing.setting == ""


def test_fewer_than_six_rounds_tell_nothing_apart() -> None:
    runs = runs_of(OF_STUDY, {"htm": 3.0}, rounds=LEAST_ROUNDS - 1)
    assert answer_transactions(runs).short == "No benefit shown."
    one = answer_transactions(runs[runs["round"] == 1])
    assert "htm 2.97, no significant difference" in one.sentences[0]  # no interval
    assert one.rests_on.startswith("1 round on")


def test_what_could_not_run_says_why() -> None:
    runs = runs_of(OF_STUDY, {"htm": 1.0, "stm": 0.1})
    ended(runs, runs["strategy"] == "htm", "unsupported", "htm needs hardware that this machine lacks")
    answer = answer_transactions(runs)
    assert answer.short == "Not in software; hardware transactions did not run."
    assert "htm has no result (unsupported: htm needs hardware that this machine lacks)." in answer.sentences[0]


def test_the_most_workers_that_fit_answer() -> None:
    frames = [runs_of(OF_STUDY, {"htm": speed}, threads) for threads, speed in ((2, 0.5), (4, 2.0), (8, 0.1))]
    found = comparisons.select_runs(pd.concat(frames, ignore_index=True), OF_STUDY)
    assert set(found.runs["threads"]) == {4}
    narrow = pd.concat([frames[1].assign(hardware_threads=2), frames[0]], ignore_index=True)
    assert set(comparisons.select_runs(narrow, OF_STUDY).runs["threads"]) == {2}


def test_one_origin_answers_and_the_others_are_named() -> None:
    old = runs_of(OF_STUDY, {"htm": 2.0}, campaign_uid="campaign-0")
    new = runs_of(OF_STUDY, {"htm": 0.5}, software="tmflow 2", started_at_utc="2026-02-01T10:00:00Z")
    few = new[new["round"] < LEAST_ROUNDS]
    for runs, short, left_out in (
        ([old, new], "Not here.", "6 rounds by tmflow 1"),
        ([old, few], "Here it does: htm beats the lock.", "5 rounds by tmflow 2"),
    ):
        answer = answer_transactions(pd.concat(runs, ignore_index=True))
        assert answer.short == short
        assert f"left out, because never pooled with them: {left_out}." in answer.rests_on


def test_the_origin_of_an_answer_does_not_depend_on_the_factors_of_its_comparison() -> None:
    """As that of a chart: here the newest version has six rounds, but only five with batches of 1."""
    old = runs_of(OF_STUDY, {"htm": 2.0}, campaign_uid="campaign-0")
    later = {"software": "tmflow 2", "started_at_utc": "2026-02-01T10:00:00Z"}
    new = runs_of(OF_STUDY, {"htm": 0.5}, rounds=LEAST_ROUNDS - 1, **later)
    runs = pd.concat([old, new, runs_of(OF_STUDY, {"htm": 0.5}, **later, batch=100)], ignore_index=True)
    selected = comparisons.select_runs(runs, OF_STUDY)
    assert set(selected.runs["software"]) == {"tmflow 2"}
    assert set(selected.runs["batch"]) == {1}
    assert (selected.left_out or "").startswith("Of fig-4.10 these are 6 rounds by tmflow 2;")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"evidence": "emulated"}, "there is no measured run of fig-4.10 at full scale, on MNIST"),
        ({"scale": "quick"}, "there is no measured run"),
        ({"dataset": "digits"}, "there is no measured run"),
        ({"hardware_threads": pd.NA}, "the number of hardware threads that the runs of fig-4.10 could use is unknown"),
        (
            {"hardware_threads": 2},
            "fig-4.10 has no round with results of tf_lock and another strategy with as many workers",
        ),
    ],
)
def test_what_does_not_count_is_missing(changes: dict[str, Any], why: str) -> None:
    runs = runs_of(OF_STUDY, {"htm": 2.0}).assign(**changes)
    with pytest.raises(Missing, match=why):
        comparisons.select_runs(runs, OF_STUDY)
    answer = answer_transactions(runs)
    assert answer.short == narrative.NOTHING
    assert answer.figure is None
    (sentence,) = answer.sentences
    assert why in sentence
    assert "make study" in sentence


def test_without_a_round_of_both_there_is_no_answer() -> None:
    runs = runs_of(OF_STUDY, {"htm": 2.0})
    odd, of_lock = runs["round"] % 2 == 1, runs["strategy"] == "tf_lock"
    ended(runs, odd == of_lock, "failed", "it broke")
    answer = answer_transactions(runs)
    assert answer.figure is None
    assert "no round with results of tf_lock and another strategy" in answer.sentences[0]


@pytest.mark.parametrize(("speeds", "factor"), [({"striped": 2.0}, {"learning_rate": 0.1}), ({}, {"curve_points": 7})])
def test_of_several_points_of_a_strategy_none_is_taken(speeds: dict[str, float], factor: dict[str, Any]) -> None:
    runs = [runs_of(OF_ALL, {"striped": 2.0}), runs_of(OF_ALL, speeds).assign(**factor)]
    with pytest.raises(Missing, match="several points of lock, or of another strategy"):
        comparisons.select_runs(pd.concat(runs, ignore_index=True), OF_ALL)


def test_a_fused_lock_is_compared_with_the_plain_one() -> None:
    speeds = {"lock fused": 1.8, "striped": 1.2, "nolock": 1.1}
    answer = strategies(speeds)
    assert answer.short == "lock (kernel fused): no lost updates, significantly faster than lock."
    assert "lock (kernel fused) is the fastest: speedup 1.80 [1.77, 1.83] over lock" in answer.sentences[0]
    assert answer.figure is not None
    assert set(answer.figure.summary["strategy"]) == {"lock", "striped", "nolock"}


def test_resource_variables_are_not_mixed_in() -> None:
    frames = [runs_of(OF_ALL, {"striped": speed}) for speed in (2.0, 0.5)]
    runs = pd.concat([frames[0], frames[1].assign(variables="resource")], ignore_index=True)
    assert set(comparisons.select_runs(runs, OF_ALL).runs["variables"]) == {"ref"}


def test_one_worker_answers_nothing() -> None:
    speeds = {"htm": 1.4, "stm": 0.1, "striped": 0.9}
    transactions = answer_transactions(runs_of(OF_STUDY, speeds, threads=1))
    use = answer_strategies(runs_of(OF_ALL, speeds, threads=1), "Lost.", CONSISTENCIES)
    for answer in (transactions, use):
        assert answer.short == "Not tested: only one worker was measured."
        (sentence,) = answer.sentences
        assert "two or more workers with a hardware thread each" in sentence
        assert answer.figure is not None
        assert ", 1 worker, " in answer.rests_on
    runs = runs_of(OF_LOSSES, {"nolock": 1.0}, threads=1, driver="native", variables=None, measures="full")
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": 0.0})
    assert "was not tested" in answers.describe_losses(runs, full)


def test_two_workers_answer_before_one() -> None:
    frames = [runs_of(OF_ALL, {"striped": speed}, threads) for threads, speed in ((1, 2.0), (2, 0.5))]
    runs = pd.concat(frames, ignore_index=True).assign(hardware_threads=3)
    answer = answer_strategies(runs, "", CONSISTENCIES)
    assert answer.short == "lock: no lossless strategy is significantly faster."


def strategies(speeds: Mapping[str, float], consistencies: Mapping[str, str | None] = CONSISTENCIES) -> answers.Answer:
    return answer_strategies(runs_of(OF_ALL, speeds), "What was lost.", consistencies)


def test_the_fastest_that_loses_nothing_is_to_be_used() -> None:
    answer = strategies({"striped": 1.4, "combining": 1.1, "nolock": 1.6, "tf_lock": 1.0})
    assert answer.short == "striped: no lost updates, significantly faster than lock."
    assert answer.sentences == [
        "Of the other strategies without lost updates, striped is the fastest: speedup 1.40 [1.38, 1.42] over lock, "
        "significantly faster.",
        "Strategies that may lose updates, speedup over lock: nolock 1.60 [1.58, 1.62], significantly faster.",
        "What was lost.",
    ]


def test_what_is_as_fast_as_the_fastest_is_named() -> None:
    runs = runs_of(OF_ALL, {"striped": 1.4, "combining": 1.399})
    uneven = runs["round"].map(lambda r: 1 + 0.01 * (-1) ** r).where(runs["strategy"] == "combining", 1.0)
    answer = answer_strategies(runs.assign(loop_s=runs["loop_s"] * uneven), "", CONSISTENCIES)
    assert "Not significantly slower: combining." in answer.sentences
    assert narrative.find_not_slower(runs, "striped", ["striped", "combining"]) == []


def test_where_none_is_faster_the_lock_will_do() -> None:
    answer = strategies({"striped": 0.9, "nolock": 1.6})
    assert answer.short == "lock: no lossless strategy is significantly faster."
    assert (
        "striped is the fastest: speedup 0.900 [0.887, 0.914] over lock, significantly slower." in answer.sentences[0]
    )


def test_an_unknown_consistency_is_said() -> None:
    answer = strategies({"striped": 1.4, "nolock": 1.6}, {"nolock": None, "lock": None})
    assert answer.short == narrative.NOTHING
    assert answer.sentences[0].startswith("Whether nolock and striped may lose updates is unknown until")


def accuracies(differences: Mapping[str, float], spread: float = 0.001) -> answers.Answer:
    runs = runs_of(OF_ACCURACY, dict.fromkeys(differences, 1.0))
    off = runs["strategy"].map({**differences, OF_ACCURACY.baseline: 0.0})
    noise = runs["round"].map(lambda r: (-1) ** r) * spread * (runs["strategy"] != OF_ACCURACY.baseline)
    return answer_accuracy(runs.assign(final_accuracy=0.9 + 0.001 * runs["round"] + off + noise))


@pytest.mark.parametrize(
    ("differences", "spread", "short", "said"),
    [
        (
            {"tf_nolock": -0.002},
            0.001,
            "No: equivalent within 2 percentage points.",
            "tf_nolock -0.2000 [-0.3150, -0.0850]",
        ),
        (
            {"tf_nolock": -0.05},
            0.001,
            "Yes, under tf_nolock.",
            "tf_nolock -5.00 [-5.11, -4.89], significantly less accurate.",
        ),
        ({"tf_nolock": 0.05}, 0.001, "No: under tf_nolock it is better.", "significantly more accurate."),
        ({"tf_nolock": 0.0}, 0.05, "Not conclusive yet.", "no significant difference."),
    ],
)
def test_whether_the_accuracy_suffers(differences: dict[str, float], spread: float, short: str, said: str) -> None:
    answer = accuracies(differences, spread)
    assert answer.short == short
    assert said in answer.sentences[0]


def test_what_was_lost() -> None:
    runs = runs_of(OF_LOSSES, {"nolock": 1.0, "striped": 1.0}, driver="native", variables=None, measures="full")
    shares = runs["round"].map(lambda r: 0.01 * r) * (runs["strategy"] == "nolock")
    full = pd.DataFrame({"uid": runs["uid"], "lost_fraction": shares})
    assert answers.describe_losses(runs, full) == (
        "Lost updates (true-contention: mnist_softmax, native driver, 4 workers, 6 rounds): "
        "nolock 3.50 [1.54, 5.46] % of the updates; under every other strategy none "
        "(at most 46 % of rounds lose any, with 95 % confidence)."
    )
    assert "was not measured" in answers.describe_losses(runs, full.assign(lost_fraction=float("nan")))
    assert "make study" in answers.describe_losses(runs[:0], full[:0])


def test_a_round_without_the_baseline_is_told_and_left_out() -> None:
    runs = runs_of(OF_STUDY, {"htm": 2.0})
    ended(runs, (runs["strategy"] == "tf_lock") & (runs["round"] == 3), "failed", "it broke")
    (row,) = baseline.speed(runs, "tf_lock", LEAST_ROUNDS).to_dict("records")
    assert (row["rounds"], row["ranking"]) == (5, "open")
    assert row["reason"] == "1 of 6 rounds with a result lack tf_lock"
    answer = answer_transactions(runs)
    assert " Incomplete: htm: 1 of 6 rounds with a result lack tf_lock." in answer.rests_on


def test_the_figure_draws_its_summary() -> None:
    figure = answer_transactions(runs_of(OF_STUDY, {"htm": 1.4, "stm": 0.1})).figure
    assert figure is not None
    spec = figure.spec()
    assert "htm 1.40 [1.38, 1.42]; stm 0.1000 [0.0985, 0.1015]" in spec["description"]
    assert figure.caption.title == "Speed relative to a lock – fig-4.10 (threads 4, against tf_lock)"
    drawn = [row for rows in spec["datasets"].values() for row in rows if row.get("variant") == "htm"]
    assert {row["estimate"] for row in drawn} == {figure.summary.set_index("variant").loc["htm", "estimate"]}


def test_the_comparisons_are_of_the_study() -> None:
    experiments = load_study(project_root() / "config.yaml").experiments
    for comparison in [
        of for question in (answers.TRANSACTIONS, answers.STRATEGIES, answers.ACCURACY) for of in question.comparisons
    ]:
        assert comparison.experiment in experiments
    known = load_claims().claims
    empty = runs_of(OF_STUDY, {"htm": 1.0})[:0]
    for answer in (
        answer_transactions(empty, ""),
        answer_strategies(empty, "", {}),
        answer_accuracy(empty),
    ):
        assert set(answer.claims) <= set(known)
