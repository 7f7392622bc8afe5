"""The three sentences at the end of a study: based on measurements, with intervals, and no stronger than those."""

from __future__ import annotations

import pandas as pd

from tests.support.frames import ended, grid
from tmflow.reports.study_summary import ended_sentence, main_results

NO_MEASURES = pd.DataFrame({"uid": [], "lost_fraction": []})
DEEP = {"experiment": "deep", "model": "mnist_deep", "dropout_keep": 0.5, "batch": 1}


def summary_sentences(runs: pd.DataFrame, measures: pd.DataFrame = NO_MEASURES, *, quick: bool = False) -> list[str]:
    return main_results(runs, measures, quick=quick)


def noisy(runs: pd.DataFrame) -> pd.DataFrame:
    """Noise by strategy: odd rounds favour strategies whose names have odd lengths."""
    sign = (runs["strategy"].str.len() + runs["round"]) % 2
    return runs.assign(loop_s=runs["loop_s"] * (1 + 0.02 * sign))


def test_the_fastest_of_the_deep_model_where_it_was_trained_and_not_oversubscribed() -> None:
    softmax = noisy(grid(("tf_lock", "nolock"), threads=(1, 2)))
    deep = noisy(
        grid(("tf_nolock", "nolock", "tf_lock"), **DEEP)
    )  # 1, 1.1 and 1.2 times as long; 8 threads are too many
    (sentence,) = summary_sentences(pd.concat([softmax, deep]))
    assert sentence.startswith("mnist_deep, batch 1, 4 threads (deep): tf_nolock was the fastest")
    assert "consistency of updates: none" in sentence
    assert sentence.endswith(": speedup 1.20 over tf_lock (95 % interval 1.2 to 1.2, 6 rounds).")
    (of_softmax,) = summary_sentences(softmax)
    assert of_softmax.startswith("mnist_softmax, batch 100, 2 threads (fig_4_1): no strategy was significantly faster")


def test_one_worker_tests_nothing() -> None:
    assert summary_sentences(noisy(grid(("tf_lock", "nolock"), threads=(1,)))) == [
        "Which strategy is the fastest was not tested: only one worker was measured, on a hardware thread by itself."
    ]


def test_the_best_of_many_is_not_clearly_faster_by_the_luck_of_being_chosen() -> None:
    """Alone its interval is above 1; as the best of four it is not."""
    runs = grid(("tf_lock", "tf_nolock", "lock", "nolock", "atomic"), **DEEP).assign(loop_s=1.0)
    lucky = runs["strategy"] == "nolock"
    runs.loc[lucky, "loop_s"] = 1 / (1.028 + 0.0224 * (-1.0) ** runs.loc[lucky, "round"])
    (one,) = summary_sentences(runs[runs["strategy"].isin(["tf_lock", "nolock"])])
    assert "nolock was the fastest" in one
    (of_many,) = summary_sentences(runs)
    assert "no strategy was significantly faster than tf_lock; the fastest was nolock: speedup 1.03 over" in of_many


def test_quick_says_so_and_one_round_has_no_interval() -> None:
    (sentence,) = summary_sentences(grid(("tf_nolock", "tf_lock"), rounds=1, **DEEP), quick=True)
    assert sentence.startswith("Smoke run, not conclusive: ")
    assert sentence.endswith("over tf_lock (1 round, no interval).")


def test_lost_updates_are_told_where_they_were_counted() -> None:
    runs = grid(("lock", "nolock"), threads=(2,), measures="full", driver="native", variables=None,
                intra_op_threads=None, inter_op_threads=None, step_call=None)  # fmt: skip
    counted = runs[["uid"]].assign(lost_fraction=[0.0] * 6 + [0.10, 0.11, 0.12, 0.13, 0.14, 0.15])
    (sentence,) = summary_sentences(runs, counted)
    assert "nolock lost 12.5 % of its updates (95 % interval 10.5 to 14.5, 6 rounds)." in sentence


def test_htm_differs_does_not_or_cannot_be_told() -> None:
    plain = {"kernel": "plain", "optimisation": "O3"}
    htm = {"provider": "rtm", "budget": 5, "spending": "study_tsx", "chunk": 0, "subscription": "variable"}
    lock = noisy(grid(("lock",), **plain))
    for factor, says in (
        (2.0, "htm differs from lock: speedup 2."),
        (1.0, "htm does not differ significantly from lock"),
    ):
        faster = noisy(grid(("htm",), **plain, **htm))
        faster["loop_s"] /= factor
        assert says in summary_sentences(pd.concat([lock, faster]))[-1]
    refused = grid(("htm",), **plain, **htm).assign(status="unsupported", reason="no TSX", loop_s=float("nan"))
    assert summary_sentences(pd.concat([lock, refused])) == ["Whether htm differs from lock is unknown: no TSX."]
    emulated = faster.assign(evidence="emulated")
    assert summary_sentences(pd.concat([lock, emulated])) == []


def test_trials_without_a_result_are_counted_by_how_they_ended() -> None:
    runs = grid(("tf_lock", "htm"), threads=(1, 2))
    assert ended_sentence(runs) is None
    ended(runs, runs["strategy"] == "htm", "unsupported", "no RTM")  # it could not run: nothing is missing
    assert ended_sentence(runs) is None
    ended(runs, (runs["strategy"] == "tf_lock") & (runs["round"] < 3), "failed", "Diverged: NaN in W")
    ended(runs, (runs["strategy"] == "tf_lock") & (runs["uid"] == runs["uid"].iloc[5]), "timeout", "took 60 s")
    expected = "5 of 12 trials ended without a result and are in no mean: 4 diverged, 1 timed out."
    assert ended_sentence(runs) == expected
