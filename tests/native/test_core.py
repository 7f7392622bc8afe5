"""The Python module of the C++ core: updates compared with NumPy, the audit, the probe, messages for wrong input."""

from __future__ import annotations

import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from variants import KEEPING, STRATEGIES

from tmflow.native import loader

pytestmark = pytest.mark.usefixtures("runs_here")

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (784, 10), (3_000_017,)])
def test_an_update_is_what_numpy_computes(strategy: str, dtype: type, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    array, delta = random.normal(size=shape).astype(dtype), random.normal(size=shape).astype(dtype)
    expected = array - dtype(0.3) * delta
    region = loader.core().Region(array)
    region.apply(strategy, 0.3, delta)
    region.settle()
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("strategy", KEEPING)
def test_threads_lose_nothing_and_are_counted_apart(strategy: str) -> None:
    array = np.zeros(10_000, np.float32)
    region = loader.core().Region(array, workers=4)

    def work(worker: int) -> None:
        for _ in range(100 * (worker + 1)):
            region.apply(strategy, -1, np.ones_like(array), worker)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    region.settle()
    assert np.unique(array).tolist() == [1000]
    assert [row["updates"] for row in region.counters()] == [100, 200, 300, 400]
    assert [row["worker"] for row in region.counters()] == [0, 1, 2, 3]


@pytest.mark.parametrize("strategy", KEEPING)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_audit_finds_nothing_lost(strategy: str, threads: int, dtype: str) -> None:
    report = loader.core().audit(strategy, threads, updates=500, elements=1000, dtype=dtype)
    assert report["expected"] == threads * 500 * 1000
    assert report["counted"] == threads * 500
    assert (report["lost"], report["doubled"], report["corrupt_elements"]) == (0, 0, 0)
    assert report["lost_fraction"] == 0
    assert report["seconds"] > 0


def test_the_audit_never_finds_more_than_was_lost() -> None:
    report = loader.core().audit("nolock", 4, updates=2000, elements=1000)
    assert 0 <= report["lost"] < report["expected"]
    assert report["doubled"] == report["corrupt_elements"] == 0
    assert report["lost_fraction"] == report["lost"] / report["expected"]


def test_the_probe_tries_only_what_the_processor_reports() -> None:
    probe = loader.core().tm_probe(30)
    assert probe["tried"] == (30 if probe["reported"] else 0)
    assert probe["committed"] + sum(probe["statuses"].values()) == probe["tried"]
    with pytest.raises(ValueError, match="tries must be at least 1"):
        loader.core().tm_probe(0)


def test_the_build_says_what_built_it() -> None:
    info = loader.core().build_info()
    assert "-O3" in info["cflags"]
    assert info["compiler"].split()[0] in {"GNU", "Clang"}


@pytest.mark.parametrize(
    "array",
    [np.zeros(4, np.int32), np.zeros(8, np.float32)[::2], np.broadcast_to(np.float32(1), 3), [1.0, 2.0]],
    ids=["integers", "strided", "read-only", "list"],
)
def test_a_region_needs_an_array_it_can_update_in_place(array: object) -> None:
    with pytest.raises(ValueError, match="writable, C-contiguous NumPy array of float32 or float64"):
        loader.core().Region(array)


def test_a_region_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="workers must be at least 1, not 0"):
        loader.core().Region(np.zeros(4), workers=0)


@pytest.mark.parametrize("delta", [np.zeros(3, np.float32), np.zeros(4, np.float64), np.zeros(8, np.float32)[::2], 1.0])
def test_a_delta_that_does_not_fit_changes_nothing(delta: object) -> None:
    array = np.ones(4, np.float32)
    region = loader.core().Region(array)
    with pytest.raises(ValueError, match="delta must be"):
        region.apply("lock", 1, delta)
    assert array.tolist() == [1, 1, 1, 1]
    assert [row["updates"] for row in region.counters()] == [0]


def test_unknown_names_and_workers_are_answered_with_what_is_allowed() -> None:
    core = loader.core()
    region = core.Region(np.zeros(4))
    with pytest.raises(ValueError, match="unknown strategy 'lok'; valid: lock, nolock"):
        region.apply("lok", 1, np.zeros(4))
    with pytest.raises(ValueError, match="worker 1 is out of range: there are 1, counted from 0"):
        region.apply("lock", 1, np.zeros(4), worker=1)
    with pytest.raises(ValueError, match="unknown strategy 'lok'; valid: lock, nolock"):
        core.audit("lok", 1, 1, 1)
    with pytest.raises(ValueError, match="unknown dtype 'int8'; valid: float32, float64"):
        core.audit("lock", 1, 1, 1, "int8")


@pytest.mark.parametrize(
    ("name", "bad"), [("threads", 0), ("threads", 1025), ("updates", 0), ("elements", 0), ("elements", -1)]
)
def test_an_audit_out_of_range_is_told_the_range(name: str, bad: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*, not {bad}$"):
        loader.core().audit("lock", **{"threads": 1, "updates": 1, "elements": 1, name: bad})


@pytest.mark.parametrize("budget", [0, 5])
@pytest.mark.parametrize("chunk", [0, 300, 1000, 5000])
def test_transactions_add_up_or_the_reason_is_told(budget: int, chunk: int) -> None:
    core = loader.core()
    region = core.Region(array := np.zeros(1000))
    parameters = [f"budget={budget}", f"chunk={chunk}"]
    (htm,) = (row for row in core.strategies() if row["name"] == "htm")
    if not htm["runnable"]:
        with pytest.raises(ValueError, match=re.escape(str(htm["why_not"]))):
            region.apply("htm", -1.0, np.ones(1000), parameters=parameters)
        assert not array.any()
        return
    for _ in range(20):
        region.apply("htm", -1.0, np.ones(1000), parameters=parameters)
    assert array.tolist() == [20.0] * 1000
    (row,) = region.counters()
    sections = -(-1000 // chunk) if chunk else 1
    assert row["updates"] == 20
    assert row["commits"] + row["fallbacks"] == 20 * sections
    assert row["attempts"] == row["commits"] + sum(row["aborts"].values())
    assert budget or row["attempts"] == 0


@pytest.mark.parametrize("strategy", ["lock_pthread", "spin"])
def test_two_ways_to_write_the_same_parameters_are_one_strategy(strategy: str) -> None:
    """If each had a separate mutex, some of these updates would overlap and be lost."""
    array, delta = np.zeros(200_000), np.ones(200_000)
    region = loader.core().Region(array, workers=3)

    def work(worker: int, parameters: list[str]) -> None:
        for _ in range(200):
            region.apply(strategy, -1, delta, worker, parameters)

    written = [[], ["kernel=plain"], ["optimisation=O3", "kernel=plain"]]
    threads = [threading.Thread(target=work, args=(worker, given)) for worker, given in enumerate(written)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.unique(array).tolist() == [600]


@pytest.mark.parametrize(
    "call", ["audit('lock', 1000, 1, 10)", "measure('lock', 1000, 1, 10)", "measure_copies(1000, 1, 10)"]
)
def test_where_there_are_not_so_many_threads_that_is_an_error_and_nobody_waits_for_them(call: str) -> None:
    """Each thread has a stack of megabytes, and the process may use a tenth of the memory that they need."""
    program = f"""
import resource
from tmflow.native import loader
core = loader.core()
core.measure_copies(2, 1, 10)
(used,) = (int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used * 1024 + 2**28,) * 2)
core.{call}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.splitlines()[-1] == "RuntimeError: Resource temporarily unavailable"
