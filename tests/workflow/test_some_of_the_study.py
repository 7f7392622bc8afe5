"""A call that names experiments runs and reports only these; rounds come by value and are stored as they end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest

from tests.conftest import TINY, Checkout, Tmflow
from tmflow.store import engine, queries

pytestmark = pytest.mark.slow

SOME = deepcopy(TINY)
SOME["first"] = ["last"]
SOME["defaults"] |= {"driver": "native", "strategy": ["lock"], "threads": [1]}
SOME["experiments"] = {
    name: {"question": f"Does {name} run?", "factors": {"model": "mnist_softmax", "batch": 5, "iterations": 40}}
    for name in ("one", "two", "last")
}
SOME["experiments"]["drawn"] = {"question": "How accurate is two?", "runs_of": "two", "shows": ["accuracy"]}


def stored(checkout: Checkout) -> set[tuple[str, int]]:
    rounds = queries.rounds(engine.open_reader(engine.sqlite_url(checkout.results / "study.db")))
    return set(zip(rounds["experiment"], rounds["round"], strict=True))


def measured(checkout: Checkout) -> list[tuple[str, int]]:
    """The rounds, in the order in which their run files were written."""
    files = sorted(checkout.results.glob("runs/full/*/*/round-*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    return [(path.parts[-3], int(path.stem.removeprefix("round-"))) for path in files]


@pytest.mark.deep
def test_named_experiments_then_the_rest_in_order(tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]) -> None:
    checkout = checkout_at(tmp_path / "checkout", SOME)
    results = checkout.results
    done = tmflow("study", "run", "drawn", **checkout.variables)
    assert done.returncode == 0, done.stderr
    assert (
        "drawn (the runs of two) is complete: 2 of 2 trials ok, 0 failed, 0 unsupported. No other experiment was run.\n"
        f"  figures   {results}/figures/drawn/\n"
        f"  table     {results}/tables/drawn.html\n"
        f"  database  sqlite:///{results}/study.db\n"
    ) in done.stdout
    assert "study is complete" not in done.stdout
    assert "report.html" not in done.stdout
    assert not (results / "report.html").exists()
    assert stored(checkout) == {("two", 1), ("two", 2)}

    rounds_only = tmflow("study", "run", "--until", "round", **checkout.variables)
    assert rounds_only.returncode == 0, rounds_only.stderr
    assert measured(checkout) == [("two", 1), ("two", 2), ("last", 1), ("last", 2), ("one", 1), ("one", 2)]
    assert "The full study is complete: 6 of 6 trials ok" in rounds_only.stdout
    assert not re.search(r"^  (figures|report|notebooks) ", rounds_only.stdout, re.MULTILINE), "nothing was drawn"

    whole = tmflow("study", "run", **checkout.variables)
    assert whole.returncode == 0, whole.stderr
    assert f"  figures   {results}/figures/\n  report    {results}/report.html\n" in whole.stdout


@pytest.mark.deep
def test_each_round_is_stored_by_the_next_step(tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]) -> None:
    """An unusable database prevents only the storing, and the round can be stored later."""
    checkout = checkout_at(tmp_path / "checkout", SOME)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        begun = tmflow("study", "run", "--until", "data", "probe_platform", **checkout.variables)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert begun.returncode == 0, begun.stderr
    assert "tmflow: the machine is busy, so times will be unreliable (load " in begun.stderr
    definition = next(iter(re.findall(r"runs/full/one/(\w+)/", planned(tmflow, checkout))))
    step = ("step", "round", "one", definition)
    assert tmflow(*step, "1", **checkout.variables).returncode == 0
    assert stored(checkout) == set()
    (tmp_path / "broken.db").write_text("this is no database, and that is a long text")
    broken = {**checkout.variables, "TMFLOW_DB_URL": f"sqlite:///{tmp_path / 'broken.db'}"}
    done = tmflow(*step, "2", **broken)
    assert done.returncode == 0, done.stderr
    assert "tmflow: 1 round complete, but not all stored yet: " in done.stderr
    assert "Traceback" not in done.stderr
    assert measured(checkout) == [("one", 1), ("one", 2)]

    assert tmflow(*step, "2", **checkout.variables).returncode == 0
    assert stored(checkout) == {("one", 1), ("one", 2)}


@pytest.mark.deep
def test_a_round_that_is_stored_and_measured_again_belongs_to_another_campaign(
    tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]
) -> None:
    """Within one campaign the database would refuse it, and the study would fail at its end."""
    checkout = checkout_at(tmp_path / "checkout", SOME)
    assert tmflow("study", "run", "one", **checkout.variables).returncode == 0
    (first,) = checkout.results.glob("runs/full/one/*/round-001.jsonl")
    first.unlink()
    done = tmflow("study", "run", "one", **checkout.variables)
    assert done.returncode == 0, done.stderr
    assert "holds 1 round of one whose run files are missing" in done.stdout
    rounds = queries.rounds(engine.open_reader(engine.sqlite_url(checkout.results / "study.db")))
    assert sorted(rounds["round"]) == [1, 1, 2]


def planned(tmflow: Tmflow, checkout: Checkout, *words: str) -> str:
    done = tmflow("study", "run", "--dry-run", *words, **checkout.variables)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_path_of_figures_where_the_results_lie_elsewhere(
    tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]
) -> None:
    checkout = checkout_at(tmp_path / "checkout", SOME)
    elsewhere = {**checkout.variables, "TMFLOW_RESULTS_DIR": tmp_path / "elsewhere"}
    for words in (["results/figures/one"], ["one"]):
        done = tmflow("study", "run", *words, "--dry-run", **elsewhere)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^round +2$", done.stdout + done.stderr, re.MULTILINE)
    wrong = tmflow("study", "run", "noe", **elsewhere)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "tmflow: unknown experiment 'noe' (did you mean 'one'?); valid: drawn, last, one, two.\n"
