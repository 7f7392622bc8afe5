"""The command `tmflow compare`: the same training under several strategies, and what it says about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Tmflow
from tmflow.base.errors import BadInput
from tmflow.benchmark.side_by_side import Compared, Scan, make_subjects, markdown, parse_scan, sentences

QUICK = ("--driver", "native", "--iterations", "300", "--test-images", "100", "--rounds", "2", "--dataset", "digits")


@pytest.mark.slow
def test_strategies_are_compared_in_the_same_rounds(tmflow: Tmflow, tmp_path: Path) -> None:
    path = tmp_path / "compared.md"
    done = tmflow("compare", "lock", "striped:block=64", "nolock", *QUICK, "--threads", "2", "--export-markdown", path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["lock", "striped:block=64", "nolock"]
    assert lines[0].endswith(" us per step")
    assert "lock" in lines[1]
    assert lines[2].endswith(", and may lose updates")
    assert path.read_text().splitlines()[0] == "| strategy | us per step | times as fast | consistency | rounds |"


@pytest.mark.slow
def test_a_scan_compares_at_each_value(tmflow: Tmflow) -> None:
    done = tmflow("compare", "lock", "spin", *QUICK, "--scan", "threads", "1", "2", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["strategy"], row["value"]) for row in rows] == [("lock", 1), ("spin", 1), ("lock", 2), ("spin", 2)]
    assert [row["ratio"] is None for row in rows] == [True, False, True, False]
    assert all(row["ratio_low"] <= row["ratio"] <= row["ratio_high"] for row in rows[1::2])


@pytest.mark.slow
def test_a_strategy_that_cannot_run_here_is_named(tmflow: Tmflow) -> None:
    done = tmflow("compare", "lock", "tf_lock", *QUICK)
    assert done.returncode == 1
    assert done.stdout.startswith("lock: ")
    assert "tmflow: tf_lock was not measured: strategy tf_lock is TensorFlow's own update" in done.stderr


def test_a_scan_doubles_the_lowest_value() -> None:
    assert parse_scan(("threads", 1, 8)) == Scan("threads", (1, 2, 4, 8))
    assert parse_scan(("batch", 3, 10)) == Scan("batch", (3, 6, 10))
    assert parse_scan(None) is None


def test_each_strategy_has_a_sentence() -> None:
    rows = [
        Compared("lock", None, 2.0, 6, "tensor"),
        Compared("striped", None, 1.0, 6, "block", 2.0, 1.9, 2.1),
        Compared("nolock", None, 2.1, 6, "none", 0.95, 0.85, 1.06),
        Compared("stm", None, 9.0, 1, "tensor"),
        Compared("spin", None, 1.5, 1, "tensor", 1.3),
    ]
    assert list(sentences(rows, "lock", None)) == [
        "lock: 2 us per step",
        "striped: 2.00 [1.90, 2.10] times as fast as lock; 1 us per step",
        "nolock: no difference to lock found (0.950 [0.850, 1.060] times as fast); 2.1 us per step, and may lose "
        "updates",
        "stm: measured in no round with lock; 9 us per step",
        "spin: 1.3 times as fast as lock, in one round; 1.5 us per step",
    ]
    assert markdown([*rows[:2], rows[3]], "lock", None).splitlines()[2:] == [
        "| lock | 2 | 1 | tensor | 6 |",
        "| striped | 1 | 2.00 [1.90, 2.10] | block | 6 |",
        "| stm | 9 |  | tensor | 1 |",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("lock",), "tmflow: compare needs two strategies or more, such as: tmflow compare lock striped nolock."),
        (("lock", "lock"), "tmflow: 'lock' is named twice: once is enough."),
        (("lock", "strip"), "tmflow: unknown strategy in 'strip':"),
        (("lock", "striped:block"), "tmflow: parameter 'block' is not of the form name=value."),
        (
            ("lock", "spin", "--scan", "thread", "1", "2"),
            "tmflow: unknown factor in --scan, which needs a whole number: 'thread'",
        ),
        (("lock", "spin", "--scan", "threads", "2", "1"), "tmflow: --scan threads goes from 2 to 1, but should go"),
        (
            ("lock", "spin", "--scan", "reading", "1", "2"),
            "tmflow: unknown factor in --scan, which needs a whole number",
        ),
        (
            ("striped:block=9", "combining", "--scan", "block", "1", "2"),
            "tmflow: --scan sets block, and so does another",
        ),
        (("lock", "spin", "--rounds", "0"), "tmflow: rounds is 0, but should be from 1 to 1000."),
    ],
)
def test_bad_input_is_a_sentence(tmflow: Tmflow, arguments: tuple[str, ...], says: str) -> None:
    done = tmflow("compare", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(says)


def test_a_factor_of_another_model_is_refused() -> None:
    with pytest.raises(BadInput, match="hidden"):
        make_subjects(["lock", "spin"], {"model": "mnist_softmax", "hidden": 5}, None, "mnist")
