"""What the runs of a platform say: the experiment of each number, the sentence, and the matrix of platforms."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.support.frames import ended
from tests.unit.reports.test_answers import CONSISTENCIES, runs_of
from tmflow.analysis.stats import Interval
from tmflow.reports.comparisons import OF_ALL, OF_STUDY
from tmflow.reports.findings import (
    SOURCES,
    Compared,
    Effect,
    Finding,
    align_numbers,
    compare,
    matrix,
    measured_platforms,
    medians,
    sentence,
    sources,
)

DEEP: dict[str, Any] = {"model": "mnist_deep", "dropout_keep": 0.5}
NO_RUNS = runs_of(OF_ALL, {})[:0]
STUDY = {"htm": 1.0, "stm": 0.1, "tf_nolock": 1.4, "tle": 1.3}


def compared(study: pd.DataFrame, every: pd.DataFrame = NO_RUNS) -> Compared:
    return compare(SOURCES["mnist_deep"], [study, every], CONSISTENCIES)


def test_each_number_comes_from_the_first_experiment_that_has_it() -> None:
    every = runs_of(OF_ALL, {"nolock": 1.2, "striped": 1.5, "combining": 1.3, "tf_lock": 1.9}, threads=2)
    effects = compared(runs_of(OF_STUDY, STUDY, **DEEP), every).effects
    assert {quantity: (effect.variant, effect.experiment) for quantity, effect in effects.items()} == {
        "htm": ("htm", "fig-4.10"),
        "stm": ("stm", "fig-4.10"),
        "nolock": ("tf_nolock", "fig-4.10"),
        "lossless": ("striped", "consistency-for-free"),
    }
    assert effects["nolock"].speed.estimate == pytest.approx(1.4, rel=0.01)
    assert (effects["nolock"].ranking, effects["nolock"].baseline, effects["nolock"].workers) == ("more", "tf_lock", 4)
    assert (effects["lossless"].baseline, effects["lossless"].workers) == ("lock", 2)
    assert compared(NO_RUNS, every).effects["nolock"].variant == "nolock"
    fused = compared(NO_RUNS, runs_of(OF_ALL, {"striped": 1.5, "lock fused": 2.0})).effects["lossless"]
    assert fused.variant == "lock (kernel fused)"  # as in the answers


def test_one_worker_says_nothing() -> None:
    alone = runs_of(OF_STUDY, STUDY, threads=1, **DEEP)
    assert not compared(alone).effects
    of_two = compared(alone, runs_of(OF_ALL, {"striped": 1.5}, threads=2)).effects
    assert {effect.experiment for effect in of_two.values()} == {"consistency-for-free"}


def test_what_cannot_run_is_no_number() -> None:
    runs = runs_of(OF_STUDY, STUDY, **DEEP)
    ended(runs, runs["strategy"] == "htm", "unsupported", "this processor has no transactions")
    found = compared(runs)
    assert "htm" not in found.effects
    assert found.unsupported == {"htm"}
    assert found.of_htm is None
    assert compared(runs_of(OF_STUDY, STUDY, **DEEP)).unsupported == set()


def effect(variant: str, low: float, middle: float, high: float, **changes: Any) -> Effect:
    ranking = "more" if low > 1 else "less" if high < 1 else "open"
    speed = Interval(middle, low, high, 6)
    return Effect(variant, speed, ranking, "tf_lock", "fig-4.10", 4, 1)._replace(**changes)


XEON = Finding(
    "xeon", "A Xeon", "full", "mnist_deep",
    {
        "htm": effect("htm", 0.96, 1.03, 1.12),
        "stm": effect("stm", 0.043, 0.048, 0.053),
        "nolock": effect("tf_nolock", 1.17, 1.38, 1.63),
        "lossless": effect("striped", 1.36, 1.44, 1.53, baseline="lock", experiment="consistency-for-free"),
    },
    frozenset(), Interval(0.0012, 0.0008, 0.0015, 6), Interval(0.01, 0.0, 0.024, 6),
)  # fmt: skip
EPYC = Finding(
    "epyc", "An EPYC", "full", "mnist_deep", {"nolock": effect("tf_nolock", 1.1, 1.2, 1.3, workers=2)},
    frozenset({"htm"}), None, Interval(0.0, 0.0, 0.459, 6),
)  # fmt: skip


def test_the_sentence_has_every_number_with_its_interval() -> None:
    assert sentence(XEON) == (
        "On A Xeon (mnist_deep, batch 1, 4 workers), relative to a lock: training without it has 1.38 [1.17, 1.63] "
        "times its speed (significantly faster) and may lose updates; striped has 1.44 [1.36, 1.53] times its speed "
        "(significantly faster) and loses none; software transactions (stm) have 0.0480 [0.0430, 0.0530] times its "
        "speed (significantly slower); hardware transactions have 1.030 [0.960, 1.120] times its speed (no significant "
        "difference), with 0.1200 [0.0800, 0.1500] % of the elements in transactions."
    )
    assert sources(XEON) == "fig-4.10 (4 workers, over tf_lock) and consistency-for-free (4 workers, over lock)"
    titled = sources(XEON, {"fig-4.10": "Deep model, speed"})
    assert titled.startswith("Deep model, speed (4 workers, over tf_lock) and consistency-for-free")
    assert sentence(EPYC).endswith("may lose updates; the hardware transactions of this experiment cannot run here.")
    mixed = XEON._replace(effects={**XEON.effects, "lossless": XEON.effects["lossless"]._replace(workers=2)})
    assert "striped has 1.44 [1.36, 1.53] times its speed (with 2 workers, significantly faster)" in sentence(mixed)
    assert list(matrix([mixed], MACHINES)["workers"]) == ["2 and 4"]


MACHINES = pd.DataFrame(
    [("epyc", 2, "none"), ("xeon", 4, "rtm"), ("arm", 8, "none")],
    columns=["platform", "cores_physical", "tm_capability"],
)


def test_the_matrix_has_a_row_for_each_platform() -> None:
    table = matrix([XEON, EPYC], MACHINES)
    assert list(table["platform"]) == ["xeon", "epyc"]
    assert list(table["cores"]) == [4, 2]
    assert list(table["TM"]) == ["RTM", "none"]
    assert list(table["workers"]) == ["4", "2"]
    assert list(table["HTM / lock"]) == ["1.030 [0.960, 1.120]", "cannot run"]
    assert list(table["no lock / lock"]) == ["1.38 [1.17, 1.63]", "1.20 [1.10, 1.30]"]
    assert list(table["lossless / lock"]) == ["1.44 [1.36, 1.53] striped", ""]
    assert list(table["lost updates"]) == ["1.00 [0.00, 2.40] %", "none in 6 rounds"]
    assert list(matrix([], MACHINES)) == list(table)


def test_the_median_is_over_machines_of_full_scale() -> None:
    quick = EPYC._replace(platform="arm", scale="quick", effects={"nolock": effect("nolock", 8, 9, 10)})
    assert medians([XEON, EPYC, quick]) == {
        "HTM / lock": "1.03 (1 machine)",
        "STM / lock": "0.048 (1 machine)",
        "no lock / lock": "1.29 (2 machines)",
        "lossless / lock": "1.44 (1 machine)",
        "lost updates": "0.5 % (2 machines)",
    }
    assert medians([XEON, quick]) == {}


def test_quick_runs_are_shown_and_marked() -> None:
    quick = EPYC._replace(scale="quick")
    assert sentence(quick).startswith("Quick runs, not conclusive. On An EPYC")
    assert list(matrix([quick], MACHINES)["platform_name"]) == ["An EPYC (quick runs)"]


def test_texts_sort_like_their_numbers() -> None:
    texts = ["1.38 [1.17, 1.63]", "26.1 [22, 30]", "0.07 [0.06, 0.08] stm", "cannot run", "", "120 [1, 2]"]
    assert sorted(align_numbers(texts)) == [
        "", "  0.07 [0.06, 0.08] stm", "  1.38 [1.17, 1.63]", " 26.1 [22, 30]", "120 [1, 2]", "cannot run",
    ]  # fmt: skip


def test_platforms_with_most_results_of_findings_come_first_and_quick_ones_last() -> None:
    columns = ["platform", "experiment", "evidence", "scale", "status", "n_runs"]
    rows = [
        ("few", "fig-4.10", "measured", "full", "ok", 5),
        ("others", "sparse-contention", "measured", "full", "ok", 900),
        ("fewer others", "sparse-contention", "measured", "full", "ok", 800),
        ("many", "fig-4.10", "measured", "full", "ok", 9),
        ("many", "fig-4.10", "measured", "quick", "ok", 7),
        ("quick", "fig-4.10", "measured", "quick", "ok", 99),
        ("emulated", "fig-4.10", "emulated", "full", "ok", 99),
        ("failed", "fig-4.10", "measured", "full", "failed", 99),
    ]
    scales = measured_platforms(pd.DataFrame(rows, columns=columns))
    assert list(scales) == ["many", "few", "others", "fewer others", "quick"]
    assert [*scales.values()] == ["full"] * 4 + ["quick"]
