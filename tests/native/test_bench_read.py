"""Reads next to updates: validation of requests, presentation of results, and the real library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Tmflow
from tmflow.base.errors import BadInput
from tmflow.benchmark import reads, updates
from tmflow.benchmark.markdown import render, report_reads
from tmflow.benchmark.plan import Subject
from tmflow.benchmark.reads import ReadCell, ReadPlan, Way, make_read_plan
from tmflow.benchmark.storage import SavedReads, read_benchmark
from tmflow.benchmark.updates import Answer, Measured

LOCK, NOLOCK = (
    Subject(name, name, consistency=consistency) for name, consistency in (("lock", "tensor"), ("nolock", "none"))
)
WAYS = [Way(LOCK, True, "tensor"), Way(LOCK, False, "element"), Way(NOLOCK, False, "element")]
CELL = ReadCell(10, 1, 2)


def answer(us: float, torn: int = 0) -> Answer:
    return {"seconds": us / 1e4, "reads": 100, "updates": 50, "checked": 20, "torn": torn}


def test_a_row_says_what_a_read_costs() -> None:
    plan = ReadPlan(WAYS, [CELL], rounds=2, seed=0, cpus=2)
    turns = {
        ("lock, consistent", CELL): Measured(100, [answer(2.0), answer(8.0)]),
        ("lock, plain", CELL): Measured(100, [answer(1.0, torn=5), answer(4.0)]),
        ("nolock, plain", CELL): Measured(100, [answer(3.0), answer(3.0)]),
    }
    plain, nolock, consistent = reads.summarised(plan, turns)
    assert [row.name for row in (plain, nolock, consistent)] == ["lock, plain", "nolock, plain", "lock, consistent"]
    assert (consistent.us_per_read, consistent.consistency, consistent.torn_fraction) == (pytest.approx(4), "tensor", 0)
    assert (consistent.ratio, consistent.ratio_low, consistent.ratio_high) == pytest.approx((2, 2, 2))
    assert (consistent.reads_per_s, consistent.updates_per_s) == pytest.approx((200e3, 100e3))
    assert (plain.torn_fraction, plain.checked, plain.kept) == (pytest.approx(5 / 40), 40, True)
    assert plain.oversubscribed
    assert not consistent.model_copy(update={"torn_fraction": 0.1}).kept


def test_a_consistent_read_has_the_consistency_of_its_parameters() -> None:
    adaptive = Subject("adaptive:promise=block", "adaptive", parameters={"promise": "block"}, consistency="tensor")
    htm = Subject("htm:chunk=4", "htm", parameters={"chunk": 4}, consistency="tensor")
    ways = [Way(subject, True, "tensor") for subject in (adaptive, htm)]
    turns = {(way.name, CELL): Measured(100, [answer(1.0, torn=5)]) for way in ways}
    rows = reads.summarised(ReadPlan(ways, [CELL], rounds=1, seed=0, cpus=2), turns)
    assert [(row.consistency, row.kept) for row in rows] == [("block", True)] * 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"readers": "0"}, "readers is '0' in '0', but should be whole numbers from 1 to 1024"),
        ({"strategy": "mutex_loop"}, "'mutex_loop' is a reference for updates, which is not read"),
        ({"rounds": 0}, "rounds is 0"),
    ],
)
def test_what_cannot_be_is_named(options: dict[str, object], says: str) -> None:
    fallbacks = {"elements": None, "readers": None, "writers": None, "strategy": "lock", "rounds": 2, "seed": 0}
    with pytest.raises(BadInput, match=says):
        make_read_plan(**{**fallbacks, **options})  # type: ignore[arg-type]  # options of every type in one dict


def test_reads_of_the_real_library(tmflow_here: Tmflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "LIMIT_S", 120.0)  # next to other tests, a measurement may take longer than usual
    path = tmp_path / "reads.json"
    sizes = ("--elements", "1000", "--readers", "1", "--writers", "1,2", "--rounds", "2")
    done = tmflow_here("bench", "read", "--strategy", "lock,nolock,leashed", *sizes, "--save", path)
    assert done.returncode == 0, done.stderr
    found = read_benchmark(path)
    assert isinstance(found, SavedReads)
    names = {"lock, consistent", "lock, plain", "nolock, plain", "leashed, consistent"}  # leashed has no plain reads
    assert {(row.name, row.writers) for row in found.rows} == {(name, writers) for name in names for writers in (1, 2)}
    for row in found.rows:
        assert row.us_per_read > 0
        assert row.checked > 0
        assert row.torn_fraction == 0 or not row.consistent
    # Not in each row: beside other programs, a writer may get no processor in the milliseconds of a slice.
    assert any(row.updates_per_s > 0 for row in found.rows)
    text, drawn = render(found, "reads")
    assert (text, drawn) == (report_reads(found), {})
    assert tmflow_here("bench", "report", path).stdout == f"{text}\n"
    assert "1,000 elements, 1 reader, 2 writers" in done.stdout
