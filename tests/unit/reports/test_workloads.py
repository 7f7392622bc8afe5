"""What the first answer says of the workloads where transactions could win."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.support.frames import run
from tmflow.reports import answers
from tmflow.reports.workloads import UNMEASURED, describe_rows, describe_sections, describe_workloads

HTM = {"strategy": "htm", "provider": "rtm"}
SOFTMAX = {"experiment": "break-even", "driver": "native", "batch": 1}
ROWS = {
    "experiment": "sparse-contention", "driver": "native", "model": "sparse_logistic", "dataset": "synthetic",
    "features": 10_000, "nonzeros": 16, "width": 64, "skew": 0.0,
}  # fmt: skip
NONE = pd.DataFrame([run(**SOFTMAX, strategy="lock", chunk=64)]).iloc[:0]


def sections(seconds: dict[tuple[str, int], float], threads: int = 4, rounds: int = 6, **changes: Any) -> pd.DataFrame:
    """Rounds of each strategy and size with this time; a lock for each section takes r seconds in round r."""
    made = []
    for (strategy, size), time in {**{("striped", size): 1.0 for _, size in seconds}, **seconds}.items():
        factors: dict[str, Any] = dict(HTM) if strategy == "htm" else {"strategy": strategy}
        factors |= {"block" if strategy == "striped" else "chunk": size}
        for r in range(1, rounds + 1):
            noise = 1.0 if strategy == "striped" else (1.0, 1.01, 0.99)[r % 3]
            made.append(run(**SOFTMAX, **factors, threads=threads, round=r, loop_s=r * time * noise, **changes))
    return pd.DataFrame(made)


def rows(htm: float, threads: int = 4) -> pd.DataFrame:
    """Six rounds in which a transaction takes `htm` times as long as a lock for each row; other sizes differ."""
    made = []
    for r in range(1, 7):
        for factors, time in (
            ({"strategy": "striped", "block": 64}, 1.0), ({"strategy": "striped", "block": 2048}, 5.0),
            (HTM | {"chunk": 64}, htm), (HTM, 9.0), ({"strategy": "spin"}, 0.5),
        ):  # fmt: skip
            noise = (1.0, 1.01, 0.99)[r % 3] if factors["strategy"] == "htm" else 1.0
            made.append(run(**ROWS, **factors, threads=threads, round=r, loop_s=r * time * noise))
    return pd.DataFrame(made)


def test_sections_are_compared_where_transactions_do_best() -> None:
    runs = sections({("htm", 16): 2.0, ("htm", 256): 0.8, ("lock", 256): 0.5, ("lock", 16): 9.0})
    assert describe_sections(runs) == (
        "With critical sections of 256 elements (break-even, 4 workers), the size where transactions do best, a step "
        "with a transaction for each section takes 0.800 [0.792, 0.808] times as long as with a lock for each."
    )


def test_a_transaction_for_each_row_is_compared_with_a_lock_for_each() -> None:
    assert describe_rows(rows(1.3)) == (
        "With updates of 16 rows (sparse-contention, 4 workers), a step with a transaction for each row takes 1.30 "
        "[1.29, 1.31] times as long as with a lock for each row."
    )
    assert describe_workloads(NONE, rows(1.3)) == describe_rows(rows(1.3))


@pytest.mark.parametrize(
    "changes",
    [
        {"evidence": "emulated"},
        {"status": "failed", "loop_s": None},
        {"threads": 8},
        {"threads": 1},
        {"scale": "quick"},
    ],
    ids=lambda changes: "-".join(str(part) for part in next(iter(changes.items()))),
)
def test_only_what_is_measured_by_workers_with_a_processor_each_counts(changes: dict[str, Any]) -> None:
    runs = sections({("htm", 64): 0.5}, threads=changes.get("threads", 4))
    htm = runs["strategy"] == "htm"
    for name, value in changes.items():
        runs.loc[htm | (name == "threads"), name] = value
    assert describe_sections(runs) is None


def test_without_hardware_transactions_it_says_so() -> None:
    of_locks = sections({("lock", 64): 0.4})
    assert describe_workloads(of_locks, rows(1.0).query("strategy != 'htm'")) == UNMEASURED
    assert describe_workloads(NONE, NONE) == UNMEASURED


def test_the_most_workers_count() -> None:
    runs = pd.concat([sections({("htm", 64): 0.5}, threads=2), sections({("htm", 64): 0.9}, threads=4)])
    assert "(break-even, 4 workers), the size where" in str(describe_sections(runs))
    assert "takes 0.900 " in str(describe_sections(runs))


@pytest.mark.parametrize("rounds", [1, 5])
def test_fewer_than_six_rounds_are_no_answer(rounds: int) -> None:
    of_htm = sections({("htm", 64): 0.5}, rounds=rounds)
    assert describe_sections(of_htm) is None
    assert describe_rows(rows(1.3).query("round <= @rounds")) is None
    lucky = pd.concat([sections({("htm", 256): 0.9}), of_htm])
    assert "sections of 256 elements" in str(describe_sections(lucky))


def test_the_first_answer_ends_with_it_also_without_other_runs() -> None:
    told = "Small sections: 0.9."
    answer = answers.answer_transactions([NONE], "1234abcd", elsewhere=told)
    assert answer.sentences[-1] == told
    assert len(answer.sentences) == 2
