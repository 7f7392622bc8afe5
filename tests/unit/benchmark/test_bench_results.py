"""From measurements to results: times, intervals, paired ratios, counts, and their labels."""

from __future__ import annotations

import json
import math

import pytest
from bench_samples import LARGE, LOCK, LOOP, MEMCPY, NOLOCK, SMALL, SPIN_LOOP, WRITING, answer, measured, plan

from tmflow.base.errors import BadInput
from tmflow.benchmark.comparison import geometric_mean
from tmflow.benchmark.plan import BEST_MUTEX, Cell, Subject, numbers
from tmflow.benchmark.storage import Copied, TimedReference, TimedVariant, Written
from tmflow.benchmark.updates import TARGET_S, Measured, Outcome, calibrated, count_outcomes, rows
from tmflow.spec.strategies import Value


def test_the_interval_is_on_the_log_scale() -> None:
    # logs 0 and ln 4: mean ln 2, standard error ln 2, t(0.975, 1) = 12.7062
    us, low, high, _ = geometric_mean([1.0, 4.0])
    assert us == pytest.approx(2)
    assert low == pytest.approx(2 * 2**-12.7062, rel=1e-4)
    assert high == pytest.approx(2 * 2**12.7062, rel=1e-4)
    assert geometric_mean([None, 3.0])[:3] == pytest.approx((3, math.nan, math.nan), nan_ok=True)


def test_an_object_says_what_an_update_costs() -> None:
    outcome = Outcome([LOCK, LOOP, MEMCPY])
    outcome.measured = {
        ("lock", SMALL): measured(2.0, 2.0),
        ("mutex_loop", SMALL): measured(1.0, 1.0),
        ("memcpy", SMALL): measured(0.5, 0.5),
    }
    copied, loop, lock = rows(plan(*outcome.subjects), outcome)
    assert isinstance(copied, Copied)
    assert isinstance(loop, TimedReference)
    assert isinstance(lock, TimedVariant)
    assert (copied.memcpy_us, copied.gb_per_s) == pytest.approx((0.5, 0.24))  # 120 bytes in 0.5 us
    assert (loop.reference, loop.ratio, loop.ratio_to) == ("mutex_loop", pytest.approx(0.5), "lock")
    assert (lock.us_per_update, lock.us_low, lock.us_high) == pytest.approx((2, 2, 2))
    assert (lock.ratio, lock.ratio_low, lock.ratio_high) == pytest.approx((1, 1, 1))
    assert lock.gb_per_s == pytest.approx(0.06)
    assert lock.us_by_round == pytest.approx([2, 2])


def test_the_writing_of_a_fresh_gradient_is_subtracted_round_by_round() -> None:
    fresh = Cell(10, 1, "fresh")
    outcome = Outcome([LOCK, NOLOCK, WRITING])
    outcome.measured = {
        ("lock", fresh): measured(3.0, 6.0),
        ("nolock", fresh): measured(2.0, 2.0),
        ("gradient_writing", fresh): measured(1.0, 2.0, lost=1000),
    }
    written, lock = rows(plan(*outcome.subjects, cells=(fresh,)), outcome)
    assert isinstance(written, Written)
    assert (written.us_by_round, written.gb_per_s) == (pytest.approx([1, 2]), pytest.approx(0.04 / 2**0.5))
    assert isinstance(lock, TimedVariant)
    assert (lock.us_by_round, lock.us_with_writing_by_round) == (pytest.approx([2, 4]), pytest.approx([3, 6]))
    assert lock.us_per_update == pytest.approx(8**0.5)
    (noisy,) = outcome.left_out  # nothing is left in its second round
    assert (noisy.name, noisy.gradient, noisy.failed) == ("nolock", "fresh", False)
    assert noisy.reason == "in a round it took no longer than the writing of its gradient"


def test_without_the_writing_a_fresh_gradient_tells_nothing() -> None:
    fresh = Cell(10, 1, "fresh")
    outcome = Outcome([LOCK], {("lock", fresh): measured(3.0, 6.0)})
    assert rows(plan(LOCK, cells=(fresh,)), outcome) == []
    assert [one.reason for one in outcome.left_out] == ["the writing of its gradient was not measured"]


def test_the_names_that_others_rely_on_are_there() -> None:
    outcome = Outcome([LOCK, MEMCPY], {("lock", SMALL): measured(2.0), ("memcpy", SMALL): measured(1.0)})
    copied, lock = (json.loads(row.model_dump_json()) for row in rows(plan(*outcome.subjects), outcome))
    names = "variant strategy elements threads us_per_update us_low us_high gb_per_s lost_fraction aborts_per_commit"
    assert {*names.split(), "consistency", "ratio", "ratio_low", "ratio_high"} <= set(lock)
    assert "memcpy_us" not in lock
    assert {"elements": 10, "threads": 1, "reference": "memcpy", "memcpy_us": 1.0}.items() <= copied.items()
    assert (lock["us_low"], lock["ratio_high"], lock["aborts_per_commit"]) == (None, None, None)


def test_counts_are_of_all_rounds() -> None:
    answers = [
        answer(1.0, lost=250, commits=60, fallbacks=40, aborts={"8": 3, "6": 1}),
        answer(1.0, lost=0, commits=40, fallbacks=60, aborts={"8": 46}),
    ]
    both = count_outcomes(answers)
    assert both["updates"] == 200
    assert both["lost_fraction"] == pytest.approx(250 / 2000)
    assert both["aborts"] == {"0x00000006": 1, "0x00000008": 49}
    assert both["commit_fraction"] == pytest.approx(0.5)
    assert both["aborts_per_commit"] == pytest.approx(0.5)
    assert both["aborts_per_update"] == pytest.approx(0.25)


def test_aborts_without_a_commit_are_per_update_only() -> None:
    refused = count_outcomes([answer(1.0, fallbacks=100, aborts={"8": 500})])
    assert (refused["commit_fraction"], refused["aborts_per_commit"], refused["aborts_per_update"]) == (0, None, 5)
    without = count_outcomes([answer(1.0)])
    assert {without[name] for name in ("commit_fraction", "aborts_per_commit", "aborts_per_update")} == {None}


def test_aborts_that_nobody_told_of_are_not_known() -> None:
    untold = count_outcomes([answer(1.0, commits=75, fallbacks=25), answer(1.0, commits=100, attempts_known=False)])
    assert untold["commit_fraction"] == pytest.approx(0.875)
    assert (untold["attempts_known"], untold["aborts_per_commit"], untold["aborts_per_update"]) == (False, None, None)


@pytest.mark.parametrize(
    ("strategy", "of_itself", "parameters", "consistency"),
    [
        ("htm", "tensor", {"chunk": 0}, "tensor"),
        ("htm", "tensor", {"chunk": 4}, "block"),
        ("stm", "tensor", {"chunk": 10}, "tensor"),
        ("lock", "tensor", {"chunk": 4}, "block"),
        ("spin", "tensor", {}, "tensor"),
        ("striped", "block", {"block": 4}, "block"),
        ("striped", "block", {"block": 2048}, "tensor"),
        ("combining", "block", {"block": 0}, "tensor"),
        ("htm_if_fits", "block", {"block": 4, "fits": 10}, "block"),
        ("block_stm", "tensor", {"block": 4}, "tensor"),
        ("adaptive", "tensor", {"promise": "block"}, "block"),
        ("nolock", "none", {}, "none"),
    ],
)
def test_consistency_follows_the_parameters(
    strategy: str, of_itself: str, parameters: dict[str, Value], consistency: str
) -> None:
    assert Subject(strategy, strategy, (), parameters, of_itself).consistency_for(10) == consistency


@pytest.mark.parametrize(("counts", "kept"), [({}, True), ({"lost": 1}, False), ({"doubled": 1}, False)])
def test_violated_consistency_shows(counts: dict[str, int], kept: bool) -> None:
    outcome = Outcome([LOCK, NOLOCK], {(s.name, SMALL): measured(1.0, **counts) for s in (LOCK, NOLOCK)})
    found = {row.name: row for row in rows(plan(LOCK, NOLOCK), outcome) if isinstance(row, TimedVariant)}
    assert found["lock"].kept is kept
    assert found["nolock"].kept  # it guarantees nothing


def test_more_threads_than_cpus_are_marked() -> None:
    outcome = Outcome([LOCK], {("lock", SMALL): measured(1.0), ("lock", LARGE): measured(1.0)})
    marks = {row.threads: row.oversubscribed for row in rows(plan(LOCK, cells=(SMALL, LARGE)), outcome)}
    assert marks == {1: False, 8: True}


def test_ratios_are_to_the_best_plain_mutex_of_each_cell() -> None:
    """The best mutex is chosen by its mean over all rounds, then paired by round; the copy likewise."""
    outcome = Outcome([LOCK, LOOP, SPIN_LOOP, MEMCPY])
    for cell, loop, spin in ((SMALL, (1.0, 4.0), (1.0, 2.0)), (LARGE, (1.0, 2.0), (2.0, 2.0))):
        outcome.measured |= {
            ("lock", cell): measured(2.0, 4.0),
            ("mutex_loop", cell): measured(*loop),
            ("mutex_loop:mutex=spin", cell): measured(*spin),
            ("memcpy", cell): measured(0.5, 1.0),
        }
    found = rows(plan(*outcome.subjects, cells=(SMALL, LARGE), reference=BEST_MUTEX), outcome)
    locks = [row for row in found if isinstance(row, TimedVariant)]
    assert [lock.ratio_to for lock in locks] == [BEST_MUTEX, BEST_MUTEX]
    assert [lock.best_mutex for lock in locks] == ["mutex_loop:mutex=spin", "mutex_loop"]
    for lock in locks:
        assert (lock.ratio, lock.ratio_low, lock.ratio_high) == pytest.approx((2, 2, 2))
        assert (lock.memcpy_ratio, lock.memcpy_ratio_low, lock.memcpy_ratio_high) == pytest.approx((4, 4, 4))


def test_a_named_reference_that_does_not_run_is_refused() -> None:
    plan(LOCK, LOOP, reference=BEST_MUTEX).require_reference([LOCK, LOOP])
    with pytest.raises(BadInput, match="--reference 'nolock' cannot run here"):
        plan(LOCK, NOLOCK, reference="nolock").require_reference([LOCK])


def test_without_the_reference_there_is_no_ratio() -> None:
    outcome = Outcome([LOCK, NOLOCK], {("nolock", SMALL): measured(1.0, 1.0)})
    (nolock,) = rows(plan(LOCK, NOLOCK), outcome)
    assert isinstance(nolock, TimedVariant)
    assert (nolock.ratio_to, nolock.ratio) == ("lock", None)


def test_a_subject_without_a_round_is_no_object() -> None:
    assert rows(plan(LOCK), Outcome([LOCK], {("lock", SMALL): Measured(1)})) == []


@pytest.mark.parametrize("us", [0.001, 0.3, 20, 900, 20_000, 5e6])
def test_calibration_finds_the_updates_of_a_measurement(us: float) -> None:
    """For a strategy whose first update takes ten times as long."""
    asked: list[int] = []

    def seconds(updates: int) -> float:
        asked.append(updates)
        return (updates + 9) * us / 1e6

    updates = calibrated(seconds)
    assert updates == 1 or math.isclose(seconds(updates), TARGET_S, rel_tol=0.8)
    assert len(asked) < 12
    assert sum(asked[:-1]) * us / 1e6 <= 3 * TARGET_S or asked[0] * us / 1e6 > TARGET_S


def test_numbers() -> None:
    assert numbers("threads", "4, 1,2", 8) == [4, 1, 2]
    for bad in ("", "1,", "0", "-1", "9", "1.5", "two", "1,1"):
        with pytest.raises(BadInput, match="threads"):
            numbers("threads", bad, 8)
