"""The table, the report, the saved file, and the time of attempts that all abort."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench_samples import LARGE, LOCK, LOOP, MEMCPY, NOLOCK, SMALL, WRITING, benchmark, htm, measured, plan

from tmflow.base.errors import BadInput
from tmflow.benchmark.comparison import relative_to, rests
from tmflow.benchmark.markdown import report_updates
from tmflow.benchmark.plan import BEST_MUTEX, Cell
from tmflow.benchmark.storage import LeftOut, Saved, TimedVariant, read_benchmark, write_benchmark
from tmflow.benchmark.text import format_table
from tmflow.benchmark.updates import Outcome

LATER = ("us_with_writing_by_round", "turn_by_round")  # of rows


@pytest.fixture
def shown() -> Saved:
    outcome = Outcome([LOCK, NOLOCK, htm(5), LOOP, MEMCPY])
    for cell in (SMALL, LARGE):
        outcome.measured |= {
            ("lock", cell): measured(2.0, 2.0),
            ("nolock", cell): measured(1.0, 1.0, lost=125),
            ("htm:budget=5", cell): measured(4.0, None, commits=200, aborts={"8": 50}),
            ("mutex_loop", cell): measured(1.5, 1.5),
            ("memcpy", cell): measured(0.5, 0.5),
        }
    left = LeftOut(name="itm", reason="there is no libitm", failed=False)
    died = LeftOut(name="stm", reason="its process ended by SIGSEGV", elements=10, threads=2, failed=True)
    return benchmark(plan(*outcome.subjects, cells=(SMALL, LARGE)), outcome, (left, died))


def test_the_table_says_it_all(shown: Saved) -> None:
    text = format_table(shown)
    lines = text.splitlines()
    assert lines[0].startswith("A Processor, 4 CPUs, ")
    assert "2 rounds in turns, seed 3" in lines[1]
    assert "not disturbed" in lines[1]
    assert lines[3] == "10 elements, 1 thread; memcpy 0.5 [0.5, 0.5] us, 0.2 GB/s; best plain mutex mutex_loop"
    assert [line.split()[0] for line in lines[5:9]] == ["nolock", "(mutex_loop)", "lock", "htm:budget=5"]
    nolock, htm_row = (" ".join(lines[number].split()) for number in (5, 8))
    assert nolock == "nolock 1 [1, 1] 0.50 [0.50, 0.50] 2.00 [2.00, 2.00] none 12.5 % 0.12"
    assert htm_row == "htm:budget=5 4 (1 of 2 rounds) 2.00 8.00 tensor 0 100 % 0.25 0.03"
    assert "1,000 elements, 8 threads (oversubscribed: 4 CPUs)" in text
    assert text.endswith(
        "itm cannot run here: there is no libitm.\n"
        "stm was not measured with 10 elements, 2 threads: its process ended by SIGSEGV."
    )


def test_the_report_is_markdown_and_the_same_every_time(shown: Saved, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    write_benchmark(path, shown)
    again = read_benchmark(path)
    assert again == shown
    text = report_updates(again)
    assert text == report_updates(shown)
    assert "### 10 elements, 1 thread; memcpy 0.5 [0.5, 0.5] us" in text
    assert "| nolock | 1 [1, 1] | 0.50 [0.50, 0.50] | 2.00 [2.00, 2.00] | none | 12.5 % |  |  | 0.12 |" in text
    assert "- itm cannot run here: there is no libitm." in text
    assert "Compared with one thread" not in text, "no size was measured with one thread and with several"


def test_ratios_may_be_to_another_than_the_file_says(shown: Saved) -> None:
    again = relative_to(shown, "nolock")
    text = report_updates(again)
    assert "ratio to nolock" in text
    assert "| lock | 2 [2, 2] | 2.00 [2.00, 2.00] | 4.00 [4.00, 4.00] | tensor | 0 |  |  | 0.06 |" in text
    assert relative_to(again, "lock") == shown
    best = [row for row in relative_to(shown, BEST_MUTEX).rows if isinstance(row, TimedVariant) and row.name == "lock"]
    assert [row.ratio for row in best] == pytest.approx([2 / 1.5, 2 / 1.5])
    with pytest.raises(BadInput, match="variant in the benchmark: 'nolok' \\(did you mean 'nolock'\\?\\)"):
        relative_to(shown, "nolok")


def test_several_threads_are_shown_against_one() -> None:
    outcome = Outcome([LOCK, NOLOCK])
    outcome.measured = {
        ("lock", Cell(10, 1)): measured(2.0, 4.0),
        ("lock", Cell(10, 2)): measured(3.0, 6.0),
        ("nolock", Cell(10, 2)): measured(3.0, 6.0),
    }
    text = report_updates(benchmark(plan(LOCK, NOLOCK, cells=(Cell(10, 1), Cell(10, 2))), outcome))
    lines = text[text.index("### Compared with one thread") :].splitlines()
    assert [line for line in lines if line.startswith("| 10 ")] == ["| 10 | 2 | constant | lock | 1.50 [1.50, 1.50] |"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda whole: "{", "is not JSON"),
        (lambda whole: json.dumps({**whole, "seeds": 1}), "unknown key 'seeds' \\(did you mean 'seed'\\?\\)"),
        (lambda whole: json.dumps({**whole, "schema_version": 2}), "schema_version is 2"),
        (lambda whole: json.dumps({k: v for k, v in whole.items() if k != "rows"}), "'rows' is missing"),
    ],
)
def test_another_file_is_refused(shown: Saved, tmp_path: Path, spoil, says: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "bench.json"
    path.write_text(spoil(shown.model_dump(mode="json")), encoding="utf-8")
    with pytest.raises(BadInput, match=says):
        read_benchmark(path)
    with pytest.raises(BadInput, match="cannot be read"):
        read_benchmark(tmp_path / "nothing")


@pytest.fixture
def of_both() -> Saved:
    """With a fresh gradient `lock` adds 3 us and the mutex 2 us to the writing, which takes 1 us."""
    fresh = Cell(10, 1, "fresh")
    outcome = Outcome([LOCK, LOOP, MEMCPY, WRITING])
    outcome.measured = {
        ("lock", SMALL): measured(2.0, 2.0),
        ("mutex_loop", SMALL): measured(2.0, 2.0),
        ("memcpy", SMALL): measured(0.5, 0.5),
        ("lock", fresh): measured(4.0, 4.0),
        ("mutex_loop", fresh): measured(3.0, 3.0),
        ("memcpy", fresh): measured(0.5, 0.5),
        ("gradient_writing", fresh): measured(1.0, 1.0, lost=1000),
    }
    return benchmark(plan(*outcome.subjects, cells=(SMALL, fresh), reference=BEST_MUTEX), outcome)


def test_constant_and_fresh_gradients_stand_beside_each_other(of_both: Saved) -> None:
    lines = report_updates(of_both).splitlines()
    assert any("gradient constant and fresh; [95 % interval]; ratio to best_mutex" in line for line in lines)
    (heading,) = [line for line in lines if line.startswith("### 10 elements, 1 thread; memcpy ")]
    assert "; writing a gradient 1 [1, 1] us; best plain mutex, gradient fresh mutex_loop" in heading
    (heads,) = [
        line for line in lines if line.startswith("| variant | us per update, constant | us per update, fresh |")
    ]
    (lock,) = [line for line in lines if line.startswith("| lock | 2 [2, 2] | 3 [3, 3] |")]
    of = dict(zip(heads.split(" | "), lock.split(" | "), strict=True))
    assert (of["ratio, constant"], of["ratio, fresh"]) == ("1.00 [1.00, 1.00]", "1.50 [1.50, 1.50]")
    assert (of["consistency"], of["lost, constant"], of["lost, fresh"]) == ("tensor", "0", "0")
    assert [line for line in lines if line.startswith("| 10 | 1 | ")] == [
        "| 10 | 1 | constant | tensor | lock | 2 [2, 2] | 1.00 [1.00, 1.00] |  |  |",
        "| 10 | 1 | fresh | tensor | lock | 3 [3, 3] | 1.50 [1.50, 1.50] |  |  |",
    ]
    rows = [line.split() for line in format_table(of_both).splitlines()]
    assert [words[:5] for words in rows if words[:1] == ["lock"]] == [["lock", "2", "[2,", "2]", "3"]]


def test_a_file_of_before_gradients_were_told_apart_has_constant_ones(of_both: Saved, tmp_path: Path) -> None:
    whole = of_both.model_dump(mode="json")
    old = [
        {name: value for name, value in row.items() if name not in ("gradient", *LATER)}
        for row in whole["rows"]
        if row["gradient"] == "constant"
    ]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**whole, "rows": old}), encoding="utf-8")
    assert [row.gradient for row in read_benchmark(path).rows] == ["constant"] * 3
    assert read_benchmark(path).rows[1].us_by_round == [2.0, 2.0]


def refused(budget: int, *us: float):  # type: ignore[no-untyped-def]
    """A variant whose attempts all aborted: 100 updates in each round."""
    return measured(*us, fallbacks=100, aborts={"8": 100 * budget} if budget else {})


def test_the_time_of_attempts_is_taken_off() -> None:
    """An update takes 10 us under the mutex, 0.5 us of elision, 2 us for each attempt; the second round is slower."""
    outcome = Outcome([LOCK, *(htm(budget) for budget in (0, 5, 10, 20))])
    outcome.measured["lock", SMALL] = measured(10.0, 20.0)
    for budget in (0, 5, 10, 20):
        outcome.measured[f"htm:budget={budget}", SMALL] = refused(budget, 10.5 + 2 * budget, 21 + 4 * budget)
    measured_benchmark = benchmark(plan(*outcome.subjects), outcome)
    found = list(rests(measured_benchmark))
    assert [rest.row.name for rest in found] == ["htm:budget=0", "htm:budget=5"]
    for rest in found:
        assert (rest.longer.name, rest.longest.name) == ("htm:budget=10", "htm:budget=20")
        assert rest.attempt_us.estimate == pytest.approx(3)
        assert rest.ratio[:3] == pytest.approx((1.05, 1.05, 1.05))
        assert rest.verdict == "yes"
    assert "| 10 | 1 | constant | htm:budget=5 | 3.000 [" in report_updates(measured_benchmark)


@pytest.mark.parametrize(("share", "verdict"), [((1.3, 1.3), "no"), ((1.0, 1.19), "undecided")])
def test_a_verdict_needs_the_whole_interval(share: tuple[float, float], verdict: str) -> None:
    outcome = Outcome([LOCK, *(htm(budget) for budget in (0, 5, 10))], {("lock", SMALL): measured(10.0, 10.0)})
    for budget in (0, 5, 10):
        outcome.measured[f"htm:budget={budget}", SMALL] = refused(budget, *(10 * one + budget for one in share))
    (rest,) = rests(benchmark(plan(*outcome.subjects), outcome))
    assert rest.verdict == verdict


def test_attempts_that_commit_or_are_of_other_variants_say_nothing() -> None:
    outcome = Outcome([LOCK, htm(0), htm(5), htm(10, chunk=4)], {("lock", SMALL): measured(10.0, 10.0)})
    outcome.measured["htm:budget=0", SMALL] = refused(0, 10.0, 10.0)
    outcome.measured["htm:budget=5", SMALL] = measured(9.0, 9.0, commits=1, aborts={"8": 500})
    outcome.measured["htm:budget=10", SMALL] = refused(10, 20.0, 20.0)
    assert list(rests(benchmark(plan(*outcome.subjects), outcome))) == []
