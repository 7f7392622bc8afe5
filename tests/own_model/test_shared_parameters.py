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

    def test_a_strategy_without_consistent_reads(self) -> None:
        with pytest.raises(BadInput, match=r"w: .*nolock.* no consistent read"):
            SharedParameters({"w": zeros(2)}, strategy="nolock").read("w")
