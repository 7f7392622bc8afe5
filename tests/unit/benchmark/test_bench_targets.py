"""Targets, the fastest strategy at equal consistency, and the plots: invented measurements."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_samples import LOCK, LOOP, MEMCPY, NOLOCK, SPIN_LOOP, benchmark, measured, plan

from tmflow.analysis.stats import Interval
from tmflow.benchmark import comparison, plots
from tmflow.benchmark.comparison import best_of_equal_consistency, verdict
from tmflow.benchmark.markdown import report_updates
from tmflow.benchmark.plan import BEST_MUTEX, Cell, Subject
from tmflow.benchmark.storage import Saved
from tmflow.benchmark.updates import Outcome
from tmflow.charts import figures

STRIPED = Subject("striped", "striped", parameters={"block": 2048}, consistency="block")
BLOCK_STM = Subject("block_stm", "block_stm", consistency="tensor")
ADAPTIVE = Subject("adaptive:promise=block", "adaptive", parameters={"promise": "block"}, consistency="tensor")
SUBJECTS = (LOCK, NOLOCK, STRIPED, BLOCK_STM, ADAPTIVE, LOOP, SPIN_LOOP, MEMCPY)
TIMES = {
    "lock": 2.0,
    "nolock": 4.0,
    "striped": 1.0,
    "block_stm": 3.0,
    "adaptive:promise=block": 1.2,
    "mutex_loop": 2.5,
    "mutex_loop:mutex=spin": 2.2,
    "memcpy": 0.5,
}


@pytest.fixture
def shown() -> Saved:
    """7,850 floats with one thread and with two, and once with more threads than CPUs."""
    cells = (Cell(7850, 1), Cell(7850, 2), Cell(7850, 8))
    outcome = Outcome(list(SUBJECTS))
    for cell in cells:
        for name, us in TIMES.items():
            lost = 5 if name == "nolock" else 0
            outcome.measured[name, cell] = measured(us, 2 * us, elements=7850, lost=lost)
    return benchmark(plan(*SUBJECTS, cells=cells, reference=BEST_MUTEX), outcome)


def test_each_target_compares_what_it_says(shown: Saved) -> None:
    found = {(one.what, one.of, cell.threads): one for cell, one in comparison.check_targets(shown)}
    assert {key: (one.limit, one.verdict) for key, one in found.items() if key[2] < 8} == {
        ("best with block consistency: striped", "best plain mutex: mutex_loop:mutex=spin", 2): (0.55, "met"),
        ("best with block consistency: striped", "nolock", 2): (0.2, "missed"),
        ("block_stm", "best plain mutex: mutex_loop:mutex=spin", 1): (1.3, "missed"),
        ("block_stm", "best plain mutex: mutex_loop:mutex=spin", 2): (1.0, "missed"),
        ("adaptive with block consistency: adaptive:promise=block", "best of the same consistency: striped", 1): (
            1.1,
            "missed",
        ),
        ("adaptive with block consistency: adaptive:promise=block", "best of the same consistency: striped", 2): (
            1.1,
            "missed",
        ),
    }
    best = found["best with block consistency: striped", "best plain mutex: mutex_loop:mutex=spin", 2]
    assert best.measured[:3] == pytest.approx((1 / 2.2,) * 3)


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        ((0.5, 0.4, 0.55), "met"),
        ((0.5, 0.4, 0.56), "undecided"),
        ((0.7, 0.56, 0.8), "missed"),
        ((0.1, float("nan"), float("nan")), "undecided"),
    ],
)
def test_a_verdict_needs_the_whole_interval(interval: tuple[float, float, float], says: str) -> None:
    assert verdict(Interval(*interval, 8), 0.55) == says


def test_a_strategy_that_lost_an_update_is_not_the_best(shown: Saved) -> None:
    broken = [
        row.model_copy(update={"lost_fraction": 0.001}) if getattr(row, "variant", "") == "striped" else row
        for row in shown.rows
    ]
    best = {
        (one.row.threads, one.row.consistency): one
        for one in best_of_equal_consistency(shown.model_copy(update={"rows": broken}))
    }
    assert best[2, "block"].row.name == "adaptive:promise=block"
    first = {(one.row.threads, one.row.consistency): one for one in best_of_equal_consistency(shown)}
    assert first[2, "block"].row.name == "striped"
    assert (first[2, "tensor"].row.name, first[2, "none"].next) == ("lock", None)
    second = first[2, "block"]
    assert second.next is not None
    assert second.next.name == "adaptive:promise=block"
    assert second.over_next is not None
    assert second.over_next.estimate == pytest.approx(1 / 1.2)


def test_the_report_has_targets_and_pictures(shown: Saved) -> None:
    text = report_updates(shown, [("A title", "a-file.svg")])
    assert (
        "| 7,850 | 2 | constant | best with block consistency: striped | nolock | 0.2 | 0.25 [0.25, 0.25] | missed |"
        in text
    )
    assert "| 7,850 | 2 | constant | block | striped | 1.414 " in text
    assert "![A title](a-file.svg)" in text
    assert "### Plots" not in report_updates(shown)


def test_the_pictures_hold_every_variant_and_what_it_is_compared_with(shown: Saved) -> None:
    drawn = plots.frame(shown, 7850, "constant", plots.US)
    assert set(drawn["consistency"]) == {"none", "block", "tensor"}
    for consistency in ("none", "block", "tensor"):
        panel = drawn[drawn["consistency"] == consistency]
        assert {"memcpy", plots.MUTEX_LABEL} < set(panel["variant"])
    own = drawn[~drawn["variant"].isin(["memcpy", plots.MUTEX_LABEL])]
    assert dict(zip(own["variant"], own["consistency"], strict=True)) == {
        "adaptive:promise=block": "block", "block_stm": "tensor", "lock": "tensor", "nolock": "none", "striped": "block"
    }  # fmt: skip
    assert set(drawn.loc[drawn["oversubscribed"], "threads"]) == {8}
    striped = drawn[(drawn["variant"] == "striped") & (drawn["threads"] == 2)].iloc[0]
    assert striped["value"] == pytest.approx(2**0.5)
    moved = plots.frame(shown, 7850, "constant", plots.GB)
    in_gb = moved[(moved["variant"] == "striped") & (moved["threads"] == 2)].iloc[0]
    assert in_gb["value"] == pytest.approx(12 * 7850 / 2**0.5 / 1e3)
    assert in_gb["low"] < in_gb["value"] < in_gb["high"]


def test_the_same_file_gives_the_same_pictures(shown: Saved, tmp_path: Path) -> None:
    first, second = ([figures.svg(plot.chart.to_dict()) for plot in plots.plots(shown)] for _ in range(2))
    assert first == second
    assert len(first) == 2
    assert all("consistency: block" in svg and "striped" in svg and "A Processor" in svg for svg in first)


def test_where_no_variant_was_measured_there_is_no_picture() -> None:
    outcome = Outcome([MEMCPY], {("memcpy", Cell(10, 1)): measured(1.0, 1.0)})
    assert list(plots.plots(benchmark(plan(MEMCPY, cells=(Cell(10, 1),)), outcome))) == []
