"""Arrays that threads share: updates in place, without losses, and clear errors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tmflow.arrays import SharedParameters
from tmflow.base.errors import BadInput

STRATEGIES = ("auto", "lock", "striped:block=64", "block_stm", "atomic", "stm")


def zeros(*shape: int, dtype: str = "float32") -> Any:
    return np.zeros(shape, dtype)


def together(*work: Any) -> None:
    """Run the functions at the same time, each in a thread of its own."""
    start = threading.Barrier(len(work))

    def run(function: Any) -> None:
        start.wait()
        function()

    threads = [threading.Thread(target=run, args=(function,)) for function in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_threads_lose_no_update(strategy: str, dtype: str) -> None:
    weights, table = zeros(20, 30, dtype=dtype), zeros(9, 4, dtype=dtype)
    shared = SharedParameters({"weights": weights, "table": table}, strategy=strategy, workers=2)
    ones = np.ones_like(weights)

    def descend(rows: list[int]) -> None:
        for _ in range(100):
            shared.apply({"weights": -ones, "table": (rows, -np.ones((len(rows), 4), dtype))}, 1.0)

    together(*(lambda rows=rows: descend(rows) for rows in ([0, 1], [1, 2], [2, 2], [3, 0])))
    np.testing.assert_array_equal(weights, np.full((20, 30), 400))
    np.testing.assert_array_equal(table[:, 0], [200, 200, 300, 100, 0, 0, 0, 0, 0])
    assert shared["weights"] is weights
    assert sum(row["updates"] for row in shared.counters()["weights"]) == 400


def test_a_reader_sees_whole_updates() -> None:
    weights = zeros(50_000)
    shared = SharedParameters({"weights": weights}, consistency="tensor")
    ones, stop = np.ones_like(weights), threading.Event()
    torn: list[Any] = []

    def read() -> None:
        while not stop.is_set():
            copy = shared.read("weights")
            if copy.min() != copy.max():
                torn.append(copy)

    def update() -> None:
        for _ in range(300):
            shared.apply({"weights": ones}, 1.0)
        stop.set()

    together(read, update)
    assert not torn
    np.testing.assert_array_equal(shared.read("weights"), np.full(50_000, -300))


class TestFullMeasures:
    """Lost updates, torn reads and the times of locks."""

    def test_updates_that_are_made_one_after_another_lose_and_tear_nothing(self) -> None:
        shared = SharedParameters(
            {"w": zeros(20, 5), "table": zeros(9, 4)}, strategy="nolock", workers=1, measures="full", by_rows=["table"]
        )
        assert shared.lost() == {"w": {"expected": 0, "lost": 0}, "table": {"expected": 0, "lost": 0}}
        for _ in range(10):
            shared.apply({"w": np.ones((20, 5), "f4"), "table": ([1, 7], np.ones((2, 4), "f4"))}, -1.0)
            np.testing.assert_array_equal(shared.copy("w"), shared["w"])
            np.testing.assert_array_equal(shared.copy("table", [0, 1, 7]), shared["table"][[0, 1, 7]])
        assert shared.lost() == {"w": {"expected": 1000, "lost": 0}, "table": {"expected": 80, "lost": 0}}
        for (row,) in shared.counters().values():
            assert (row["updates"], row["reads"], row["torn"]) == (10, 10, 0)

    def test_usual_measures_know_of_no_reads(self) -> None:
        shared = SharedParameters({"w": zeros(20)}, workers=1)
        shared.apply({"w": np.ones(20, "f4")}, 1.0)
        np.testing.assert_array_equal(shared.copy("w"), np.full(20, -1))
        shared["w"][:] = range(20)
        np.testing.assert_array_equal(shared.copy("w", [5, 3, 5]), [5, 3, 5])
        assert shared.copy("w", []).shape == (0,)
        assert shared.lost() == {"w": None}
        assert [(row["reads"], row["torn"]) for row in shared.counters()["w"]] == [(None, None)]

    @pytest.mark.parametrize("by_rows", [False, True], ids=["whole", "rows"])
    def test_torn_copies_are_counted(self, *, by_rows: bool) -> None:
        """Every update adds 1 everywhere, so a copy whose elements differ is torn."""
        shape, rows = ((4000, 8), list(range(0, 4000, 2))) if by_rows else ((200_000,), [])
        shared = SharedParameters(
            {"w": zeros(*shape)}, strategy="striped:block=64", workers=2, measures="full",
            by_rows=["w"] if by_rows else [],
        )  # fmt: skip
        ones, stop = np.ones((len(rows), 8) if by_rows else shape, "f4"), threading.Event()
        made, differing, copies = [0], [0], [0]

        def update() -> None:
            while not stop.is_set():
                shared.apply({"w": (rows, ones) if by_rows else ones}, -1.0)
                made[0] += 1

        def read() -> None:
            try:
                while differing[0] < 3 and copies[0] < 50_000:
                    copy = shared.copy("w", rows if by_rows else None)
                    copies[0] += 1
                    differing[0] += int(copy.min() != copy.max())
            finally:
                stop.set()

        together(update, read)
        counters = shared.counters()["w"]
        reads, torn = (sum(row[name] or 0 for row in counters) for name in ("reads", "torn"))
        assert reads == copies[0]
        assert 3 == differing[0] <= torn
        assert shared.lost() == {"w": {"expected": made[0] * ones.size, "lost": 0}}

    def test_reads_through_a_lock_are_not_torn(self) -> None:
        shared = SharedParameters({"w": zeros(50_000)}, strategy="lock", workers=2, measures="full")
        ones = np.ones(50_000, "f4")

        def work() -> None:
            for _ in range(300):
                shared.apply({"w": ones}, -1.0)
                shared.read("w")

        together(work, work)
        rows = shared.counters()["w"]
        assert [sum(row[name] or 0 for row in rows) for name in ("reads", "torn")] == [600, 0]
        assert sum(row["held_ns"] for row in rows) > 0

    def test_updates_are_of_the_kind_that_was_said(self) -> None:
        shared = SharedParameters({"w": zeros(4, 2), "t": zeros(4, 2)}, measures="full", by_rows=["t"])
        with pytest.raises(BadInput, match="w: full measures were asked for updates of the whole array, but this"):
            shared.apply({"w": ([1], np.ones((1, 2), "f4"))}, 1.0)
        with pytest.raises(BadInput, match="t: full measures were asked for updates of rows, but this one changes the"):
            shared.apply({"t": np.ones((4, 2), "f4")}, 1.0)
        np.testing.assert_array_equal(shared["w"] + shared["t"], zeros(4, 2))


def test_logistic_regression_by_threads_finds_the_truth() -> None:
    draw = np.random.default_rng(0)
    truth = draw.normal(size=20)
    examples = draw.normal(size=(4000, 20))
    labels = (examples @ truth > 0).astype(float)
    weights = np.zeros(20)
    shared = SharedParameters({"weights": weights})

    def work(part: slice) -> None:
        for x, y in zip(examples[part], labels[part], strict=True):
            shared.apply({"weights": (1 / (1 + np.exp(-x @ weights)) - y) * x}, 0.1)

    together(*(lambda part=part: work(part) for part in (slice(0, 2000), slice(2000, 4000))))
    assert ((examples @ weights > 0) == labels).mean() > 0.95


class TestBadInput:
    def test_arrays(self) -> None:
        weights = zeros(4, 4)
        for arrays, reason in (
            ({}, "there are no arrays to share"),
            ({"w": [1.0, 2.0]}, "w is a list, but should be a NumPy array or a CPU tensor of PyTorch"),
            (
                {"w": zeros(3, dtype="int32")},
                "w: array must be a writable, C-contiguous NumPy array of float32 or float64",
            ),
            ({"w": weights.T[1:]}, "w: array must be a writable, C-contiguous"),
            ({"w": weights, "v": weights[1:]}, "v: .*overlaps"),
        ):
            with pytest.raises(BadInput, match=reason):
                SharedParameters(arrays)
        shared = SharedParameters({"w": weights})
        with pytest.raises(BadInput, match=r"w: .*overlaps"):
            SharedParameters({"w": weights})
        shared.close()
        SharedParameters({"w": weights})

    def test_names_and_numbers(self) -> None:
        with pytest.raises(BadInput, match="workers is 0, but should be a whole number from 1 to 1,024"):
            SharedParameters({"w": zeros(2)}, workers=0)
        with pytest.raises(BadInput, match=r"unknown strategy 'lok' \(did you mean 'lock'\?\)"):
            SharedParameters({"w": zeros(2)}, strategy="lok")
        with pytest.raises(BadInput, match="block of strategy 'striped' is '-1'; allowed: 0 to"):
            SharedParameters({"w": zeros(2)}, strategy="striped:block=-1")
        with pytest.raises(BadInput, match="strategy 'leashed' keeps the variables elsewhere"):
            SharedParameters({"w": zeros(2)}, strategy="leashed")

    def test_a_variant_that_guarantees_less_than_is_asked_for(self) -> None:
        for variant in ("adaptive:promise=block", "lock:chunk=64", "stm:chunk=64", "striped", "block_stm"):
            if variant == "block_stm":
                SharedParameters({"w": zeros(2)}, strategy=variant, consistency="tensor").close()
                continue
            with pytest.raises(BadInput, match="guarantees the consistency block, which is less than tensor"):
                SharedParameters({"w": zeros(2)}, strategy=variant, consistency="tensor")

    def test_gradients(self) -> None:
        weights = zeros(4, 2)
        shared = SharedParameters({"w": weights})
        for gradients, rate, reason in (
            ({"v": zeros(4, 2)}, 1.0, "there is no array 'v'; there are: w"),
            ({"w": zeros(4)}, 1.0, r"w: delta must be of the array's shape, \(4, 2\), not \(4,\)"),
            ({"w": ([0.7], zeros(1, 2))}, 1.0, "w: the numbers of rows are float64, but should be whole numbers"),
            ({"w": [[1.0], [2.0, 3.0]]}, 1.0, "w: .*"),
            ({"w": ([9], zeros(1, 2))}, 1.0, "w: .*9"),
            ({"w": ([-1], zeros(1, 2))}, 1.0, "w: .*-1"),
            ({"w": ([0, 1], zeros(1, 2))}, 1.0, "w: values must have a row"),
            ({"w": zeros(4, 2)}, float("nan"), "w: alpha"),
        ):
            with pytest.raises(BadInput, match=reason):
                shared.apply(gradients, rate)
        np.testing.assert_array_equal(weights, zeros(4, 2))

    def test_copies(self) -> None:
        shared = SharedParameters({"w": zeros(4, 2)})
        with pytest.raises(BadInput, match="there is no array 'v'"):
            shared.copy("v")
        for row in (-1, 4):
            with pytest.raises(BadInput, match=f"w: row {row} is not in the variable, which has 4 rows, counted from"):
                shared.copy("w", [0, row])
        with pytest.raises(BadInput, match="w: the numbers of rows are float64"):
            shared.copy("w", [0.5])

    def test_measures(self) -> None:
        with pytest.raises(BadInput, match="w: measures is 'all'; valid: usual, full"):
            SharedParameters({"w": zeros(2)}, measures="all")  # type: ignore[arg-type]  # that is what is tested
        with pytest.raises(BadInput, match="w: full measures would need 1000001 counts of rows, but at most"):
            SharedParameters({"w": zeros(1_000_001, 2)}, strategy="lock", measures="full", by_rows=["w"])
        SharedParameters({"table": zeros(2, 2)}, measures="full", by_rows="table").close()
        with pytest.raises(BadInput, match="by_rows has 't', but there is no such array; there are: w"):
            SharedParameters({"w": zeros(2)}, measures="full", by_rows=["t"])

    def test_a_strategy_without_consistent_reads(self) -> None:
        with pytest.raises(BadInput, match=r"w: .*nolock.* no consistent read"):
            SharedParameters({"w": zeros(2)}, strategy="nolock").read("w")
