"""The benchmark with the real library: small sizes, real processes, and workers that die."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tmflow
from tmflow.base.errors import BadInput
from tmflow.base.processes import Worker, WorkerFailed, Workers
from tmflow.benchmark import updates
from tmflow.benchmark.plan import LOOPS, MORE_VARIANTS, MUTEXES, Cell, Plan, make_plan, parse_subjects, shuffled_turns
from tmflow.benchmark.storage import Copied, TimedVariant, Written
from tmflow.benchmark.updates import measure, rows
from tmflow.native import loader, registry

MUTEX_LOOPS = ["mutex_loop", *(f"mutex_loop:mutex={mutex}" for mutex in ("absl", "spin", "ticket", "mcs"))]
ENDLESS = {
    **{"strategy": "lock", "parameters": [], "gradient": "constant"},
    **{"threads": 1, "updates": 10**9, "elements": 100_000},
}


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No measurement is given up: next to other tests, one of a queue lock may take longer than the usual limit.

    So commands that measure run in this process.
    """
    monkeypatch.setattr(updates, "LIMIT_S", 120.0)


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers() as pool:
        yield pool


def small_plan(
    strategy: str, elements: str = "10,300", threads: str = "1,2", rounds: int = 2, gradient: str = "constant"
) -> Plan:
    return make_plan(elements, threads, strategy, rounds, seed=1, reference=None, gradient=gradient)


def test_the_library_counts_what_it_times() -> None:
    for name in ("lock", *LOOPS):
        row = loader.core().measure(name, threads=2, updates=300, elements=50)
        assert 300 <= row["updates"] <= 600
        assert row["expected"] == row["updates"] * 50
        assert (row["lost"], row["doubled"], row["corrupt_elements"]) == (0, 0, 0)
        assert row["seconds"] > 0
    assert row["aborts"] == {0: 5 * row["updates"]}
    for mutex in MUTEXES:
        row = loader.core().measure("mutex_loop", 2, 300, 50, [f"mutex={mutex}"])
        assert (row["lost"], row["doubled"], row["corrupt_elements"]) == (0, 0, 0)
    copies = loader.core().measure_copies(threads=2, copies=300, elements=50)
    assert 300 <= copies["updates"] <= 600


def test_the_library_names_what_is_wrong() -> None:
    core = loader.core()
    with pytest.raises(ValueError, match="budget of strategy 'always_aborts' is 'x'; allowed: 0 to 1000000"):
        core.measure("always_aborts", 1, 1, 1, ["budget=x"])
    with pytest.raises(ValueError, match="threads must be 1 to 1024, not 0"):
        core.measure_copies(0, 1, 1)
    with pytest.raises(ValueError, match="unknown strategy 'memcpy'"):
        core.measure("memcpy", 1, 1, 1)


def test_the_module_is_compiled_for_speed() -> None:
    """nanobind would add -Os after our flags, and the strategies of the module would be measured with it."""
    ninja = (loader.library_dir().parent / "cmake" / "build.ninja").read_text(encoding="utf-8")
    flags = [line for line in ninja.splitlines() if line.strip().startswith("FLAGS =")]
    assert any("-O3" in line for line in flags)
    assert not any(" -Os" in line for line in flags)


def test_variants_with_their_parameters() -> None:
    lock, htm, tuned = parse_subjects("lock, htm:budget=0:chunk=5,htm:spending=tuned")
    assert (lock.name, lock.given, lock.consistency, lock.asked_for) == ("lock", (), "tensor", True)
    assert lock.parameters["kernel"] == "plain"
    assert (htm.name, htm.strategy, htm.given) == ("htm:budget=0:chunk=5", "htm", ("budget=0", "chunk=5"))
    assert (htm.parameters["budget"], htm.parameters["spending"]) == (0, "study_tsx")
    assert htm.consistency_for(10) == "block"
    (always,) = parse_subjects("always_aborts")
    assert (always.parameters, always.is_reference) == ({"budget": 5}, True)
    assert tuned.parameters["budget"] == 10  # as everywhere, the budget depends on the retry policy
    assert "budget=10" in tuned.given


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ("lok", r"unknown strategy 'lok' \(did you mean 'lock'\?\); valid: adaptive, always_aborts, .*lock, "),
        ("lock:buget=5", "strategy 'lock' has no parameter 'buget'"),
        ("htm:budget=-1", "budget of strategy 'htm' is '-1'; allowed: 0 to 1000000"),
        ("htm:budget", "parameter 'budget' is not of the form name=value"),
        ("htm:budget=1:budget=2", "'htm:budget=1:budget=2' has the parameter 'budget' twice"),
        ("lock:library=libitm.so", "strategy 'lock' has no parameter 'library'"),
        ("htm:provider=emulated:profile=intel-tsx-study", "emulated transactions, whose times mean nothing"),
        (
            "lock:kernel=fused",
            "'lock:kernel=fused' would fuse an update with its gradient, but the benchmark provides the gradients",
        ),
        ("mutex_loop:x=1", "strategy 'mutex_loop' has no parameter 'x'; it has: mutex"),
        ("tf_lock", "TensorFlow's own update, which cannot be measured without TensorFlow"),
        ("lock,,nolock", "has an empty item"),
        ("", "has an empty item"),
        ("lock,nolock,lock", "names 'lock' twice"),
    ],
)
def test_a_variant_that_cannot_be_is_named(strategy: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        small_plan(strategy)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"elements": "0"}, "elements is '0' in '0', but should be whole numbers from 1 to 1000000000"),
        ({"elements": ""}, "elements is ''"),
        ({"threads": "1,1025"}, "threads is '1025' in '1,1025', but should be whole numbers from 1 to 1024"),
        ({"elements": "1000000000", "threads": "1000"}, r"needs 12004\.0 GB, but .* are available"),
        ({"rounds": 0}, "rounds is 0, but should be from 1 to 1000"),
        ({"seed": -1}, "seed is -1"),
        ({"reference": "spin"}, "unknown reference 'spin'; valid: best_mutex, lock, mutex_loop"),
        ({"gradient": "new"}, "gradient is 'new', but should be constant, fresh, or constant,fresh"),
        ({"gradient": "fresh,fresh"}, "gradient is 'fresh,fresh', but should be constant, fresh"),
    ],
)
def test_options_that_cannot_be_are_named(options: dict[str, object], says: str) -> None:
    fallbacks = {"elements": "10", "threads": "1", "strategy": "lock", "rounds": 2, "seed": 0, "reference": None}
    with pytest.raises(BadInput, match=says):
        make_plan(**{**fallbacks, **options})  # type: ignore[arg-type]  # options of every type in one dict


def test_the_fallbacks_are_every_strategy_and_the_cpus_that_there_are() -> None:
    plan = make_plan(None, None, None, 8, 0, None)
    native = [v.name for v in registry.variants() if v.provider == "native" and v.built]
    more = [name for name in MORE_VARIANTS if name.partition(":")[0] in native]
    assert [subject.name for subject in plan.subjects] == [*native, *more, "memcpy", "gradient_writing", *MUTEX_LOOPS]
    assert plan.reference == "best_mutex"
    usable = len(os.sched_getaffinity(0))
    assert plan.cells == [Cell(n, t, "fresh") for n in (10, 7850, 3211264) for t in (1, 2, 4) if t <= usable]


def test_every_subject_has_a_turn_in_every_round_and_cell(workers: Workers) -> None:
    plan = small_plan("lock,nolock,always_aborts:budget=2", rounds=3)
    outcome = measure(plan, workers)
    assert not outcome.left_out
    found = rows(plan, outcome)
    assert len(found) == 9 * 4
    for row in found:
        assert row.rounds == 3
        assert row.gb_per_s > 0
        if isinstance(row, Copied):
            assert row.memcpy_low is not None
            assert row.memcpy_low <= row.memcpy_us
            continue
        assert row.us_per_update > 0
        assert None not in (row.us_low, row.ratio, row.ratio_low)
        if row.name == "lock":
            assert (row.lost_fraction, row.aborts_per_commit) == (0, None)
        if row.name == row.best_mutex:
            assert row.ratio == 1
        if row.name == "always_aborts:budget=2":
            assert row.aborts == {"0x00000000": 2 * row.updates}
            assert (row.fallbacks, row.aborts_per_update) == (row.updates, 2)


def test_fresh_gradients_are_written_and_the_writing_is_subtracted(workers: Workers) -> None:
    plan = small_plan("lock,striped:block=512", "5000", "1,2", 3, "constant,fresh")
    outcome = measure(plan, workers)
    found = rows(plan, outcome)
    writing = {row.threads: row for row in found if isinstance(row, Written)}
    assert [row.gradient for row in writing.values()] == ["fresh", "fresh"]
    assert all(row.gb_per_s < 1000 for row in writing.values())  # ten times as many where no gradient is written
    locks = {(row.threads, row.gradient): row for row in found if row.name == "lock" and isinstance(row, TimedVariant)}
    noisy = {(one.threads, one.gradient) for one in outcome.left_out if one.name == "lock"}
    assert {*locks, *noisy} == {(t, g) for t in (1, 2) for g in ("constant", "fresh")}
    assert not any(gradient == "constant" for _, gradient in noisy)
    for (threads, gradient), lock in locks.items():
        assert lock.kept
        assert len(lock.turn_by_round or ()) == 3
        if gradient == "constant":
            assert lock.us_with_writing_by_round is None
        else:
            by_round = zip(lock.us_with_writing_by_round or (), writing[threads].us_by_round, strict=True)
            assert lock.us_by_round == [both - alone for both, alone in by_round if both and alone]


def test_the_worker_writes_the_gradient_where_it_is_fresh() -> None:
    """An update with a fresh gradient has the same result as one with a constant gradient; the time of writing is
    separate.
    """
    measured = [loader.core().measure("nolock", 1, 200, 1 << 20, fresh_gradient=fresh) for fresh in (False, True)]
    for row in measured:
        assert (row["lost"], row["doubled"], row["corrupt_elements"]) == (0, 0, 0)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for fresh in (True, False) * 5:
        alone = loader.core().measure("gradient_writing", 1, 200, 1 << 20, fresh_gradient=fresh)
        assert alone["lost"] == alone["expected"]
        seconds[fresh].append(alone["seconds"])
    # No gradient is written. The fastest of each, because other programs may interrupt any one of them.
    assert min(seconds[False]) < min(seconds[True]) / 100


def test_the_order_of_turns_follows_the_seed() -> None:
    def order(seed: int) -> list[list[tuple[str, Cell]]]:
        plan = make_plan("10,20", "1", "lock,nolock,spin", 4, seed, None, "constant")
        cells = [[(s.name, cell) for s, cell in places] for places in plan.places(plan.subjects)]
        return [shuffled_turns(cells, seed, number) for number in range(1, 5)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert len({tuple(turns) for turns in order(1)}) > 1
    for turns in order(1):
        assert len(set(turns)) == 9 * 2
        assert len({cell for _, cell in turns[:9]}) == 1  # values that are compared are measured close together


def test_what_cannot_run_is_listed_unless_it_was_asked_for(workers: Workers) -> None:
    other = {"rtm": "power", "power": "rtm"}[str(parse_subjects("htm")[0].parameters["provider"])]
    plan = small_plan(f"lock,htm:provider={other}")
    with pytest.raises(BadInput, match=f"^'htm:provider={other}' cannot run here: (?!htm cannot)"):
        measure(plan, workers)
    by_default = replace(plan, subjects=[replace(subject, asked_for=False) for subject in plan.subjects])
    outcome = measure(by_default, workers)
    assert [subject.name for subject in outcome.subjects] == ["lock", "memcpy", "gradient_writing", *MUTEX_LOOPS]
    assert [(one.name, one.elements, one.failed) for one in outcome.left_out] == [
        (f"htm:provider={other}", None, False)
    ]


@pytest.mark.deep
def test_a_worker_that_is_killed_costs_its_variant_one_cell(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variant is named, and a new process measures everything else."""
    plan = small_plan("lock,nolock")
    first = workers.of({}).pid
    real, killed = Worker.ask, []

    def ask(self: Worker, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        if request["strategy"] == "nolock" and request.get("elements") == 300 and not killed:
            os.kill(self.pid, signal.SIGKILL)
            killed.append(Cell(request["elements"], request["threads"]))
        return real(self, request, limit_s)

    monkeypatch.setattr(Worker, "ask", ask)
    outcome = measure(plan, workers)
    (missing,) = outcome.left_out
    its_cell = (missing.elements, missing.threads, missing.gradient)
    assert (missing.name, its_cell, missing.failed) == ("nolock", killed[0], True)
    assert missing.reason == "its process ended by SIGKILL"
    assert len(rows(plan, outcome)) == len(plan.cells) * 8 - 1
    assert workers.of({}).pid != first


def test_a_worker_that_is_killed_in_a_measurement_says_so() -> None:
    worker = Worker({})
    failures: list[str] = []

    def ask() -> None:
        try:
            worker.ask(ENDLESS, limit_s=60)
        except WorkerFailed as failure:
            failures.append(str(failure))

    asking = threading.Thread(target=ask)
    asking.start()
    os.kill(worker.pid, signal.SIGKILL)
    asking.join(30)
    assert failures == ["its process ended by SIGKILL"]


def test_a_measurement_that_takes_too_long_is_given_up(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one variant, as in a livelock: it is ended with its process, and the others are still measured."""
    plan = small_plan("lock,nolock", elements="10", threads="1")
    real = Worker.ask

    def ask(self: Worker, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        endless = request["strategy"] == "nolock" and "elements" in request
        return real(self, ENDLESS if endless else request, 0.5 if endless else limit_s)

    monkeypatch.setattr(Worker, "ask", ask)
    outcome = measure(plan, workers)
    assert [(one.name, one.reason) for one in outcome.left_out] == [("nolock", "took longer than 0.5 s")]
    assert {row.name for row in rows(plan, outcome) if not isinstance(row, Copied)} == {"lock", *MUTEX_LOOPS}


def test_what_is_slow_gets_fewer_rounds(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "PATIENCE_S", 0.0)
    plan = small_plan("lock", elements="10", threads="1", rounds=5)
    outcome = measure(plan, workers)
    (lock,) = (row for row in rows(plan, outcome) if not isinstance(row, Copied) and row.name == "lock")
    assert (lock.rounds, lock.us_by_round[3:]) == (updates.FEWEST_ROUNDS, [None, None])


def test_a_process_has_the_environment_it_is_started_with() -> None:
    worker = Worker({"TMFLOW_NATIVE_DIR": "/nowhere"})
    with pytest.raises(WorkerFailed, match="its process ended with code"):
        worker.ask({"strategy": "lock", "parameters": []}, 60)


@pytest.fixture
def saved(tmflow_here: Tmflow, tmp_path: Path) -> tuple[str, Path]:
    path = tmp_path / "folder" / "bench.json"
    options = ("--elements", "10,100", "--threads", "1", "--strategy", "lock,nolock", "--rounds", "3")
    options += ("--gradient", "constant")
    done = tmflow_here("bench", "apply", *options, "--json", "--save", path)
    assert done.returncode == 0, done.stderr
    return done.stdout, path


class TestCommand:
    """The command `tmflow bench`."""

    def test_json_is_an_object_per_line(self, saved: tuple[str, Path]) -> None:
        found = [json.loads(line) for line in saved[0].splitlines()]
        assert len(found) == 2 * 8
        copies = [row for row in found if "memcpy_us" in row]
        assert [(row["elements"], row["threads"], row["reference"]) for row in copies] == [
            (10, 1, "memcpy"),
            (100, 1, "memcpy"),
        ]
        variants = [row for row in found if "memcpy_us" not in row]
        names = ["lock", *MUTEX_LOOPS, "nolock"]
        assert sorted((row["variant"], row["elements"]) for row in variants) == sorted(
            (name, elements) for name in names for elements in (10, 100)
        )
        assert {row["variant"] for row in variants if "reference" in row} == {*MUTEX_LOOPS}
        for row in variants:
            assert row["us_low"] <= row["us_per_update"] <= row["us_high"]
            assert row["gb_per_s"] == pytest.approx(12 * row["elements"] / row["us_per_update"] / 1000)
            assert row["consistency"] == {"nolock": "none"}.get(row["variant"], "tensor")
            assert row["strategy"] == row["variant"].partition(":")[0]
            assert row["best_mutex"] in MUTEX_LOOPS
            assert row["memcpy_ratio_low"] <= row["memcpy_ratio"] <= row["memcpy_ratio_high"]

    def test_the_saved_file_holds_the_same_and_renders(self, saved: tuple[str, Path], tmflow: Tmflow) -> None:
        printed, path = saved
        document = json.loads(path.read_text(encoding="utf-8"))
        for row, line in zip(document["rows"], printed.splitlines(), strict=True):
            assert row.items() <= json.loads(line).items()
        assert document["platform"]["isa"]
        assert document["software"]["compiler"]
        done = tmflow("bench", "report", path)
        assert done.returncode == 0, done.stderr
        assert "### 100 elements, 1 thread; memcpy " in done.stdout
        assert "| lock | " in done.stdout

    def test_the_table(self, tmflow_here: Tmflow) -> None:
        asked = ("--elements", "10", "--threads", "1", "--strategy", "lock", "--rounds", "1")
        done = tmflow_here("bench", "apply", *asked, "--gradient", "constant")
        assert done.returncode == 0, done.stderr
        assert "10 elements, 1 thread; memcpy " in done.stdout
        assert "\n  lock " in done.stdout
        assert "\n  (mutex_loop) " in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("apply", "--strategy", "lok"), "tmflow: unknown strategy 'lok' (did you mean 'lock'?); valid: "),
            (("apply", "--threads", "0"), "tmflow: threads is '0' in '0', but should be whole numbers from 1 to 1024."),
            (("report", "no/such/file"), "tmflow: no/such/file cannot be read: No such file or directory."),
        ],
    )
    def test_bad_input_is_a_sentence(self, tmflow: Tmflow, arguments: tuple[str, ...], says: str) -> None:
        done = tmflow("bench", *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(says)
        assert len(done.stderr.splitlines()) == 1
        assert not done.stdout
