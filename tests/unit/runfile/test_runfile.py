"""The run file: valid content, and messages about invalid content."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.own_runs import ARRAYS, own_runs
from tests.support.sample_runs import CLUSTER, EMULATED, FULL, SOFTWARE_TM, backend, sample_runs
from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.base.errors import BadInput
from tmflow.runfile import content_hash, lines, record
from tmflow.runfile.record import CLOCKS, LOCK_TIMES, TRAFFIC
from tmflow.spec.factors import ADVISED_DRIVERS, DRIVER_FACTORS, VALUES_BEFORE


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "round-001.jsonl"
    record.write(path, sample_runs())
    return path


def test_round_trip(run_file: Path) -> None:
    assert list(record.read(run_file)) == sample_runs()
    assert [path.name for path in run_file.parent.iterdir()] == [run_file.name]


def test_cut_in_half_is_refused_by_name(run_file: Path) -> None:
    data = run_file.read_bytes()
    run_file.write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match=rf"{run_file.name} is cut off in line \d+"):
        list(record.read(run_file))


def test_newer_schema_is_refused_with_what_to_do(run_file: Path) -> None:
    line = json.loads(run_file.read_text().splitlines()[0])
    run_file.write_text(json.dumps({**line, "schema_version": 99}) + "\n")
    with pytest.raises(BadInput, match=r"schema version 99 is newer than 1, .* install a newer tmflow"):
        list(record.read(run_file))


@pytest.mark.parametrize(
    ("change", "names"),
    [({"loop_s": -1}, "loop_s"), ({"surprise": 1}, "surprise"), ({"evidence": "guessed"}, "evidence")],
)
def test_bad_field_is_named(run_file: Path, change: dict[str, object], names: str) -> None:
    line = json.loads(run_file.read_text().splitlines()[0])
    run_file.write_text(json.dumps({**line, **change}) + "\n")
    with pytest.raises(BadInput, match=f"line 1: {names}"):
        list(record.read(run_file))


# A run as it was written and stored before runs could have a backend, or specs these factors.
OLD_HASH = "5825478da5d62b4da085956bab081c09ec1ed70071c78760ca6f12748ebcb65d"
OF_FULL = ("retries", "failed_publications", "taken_blocks", "reads", "lost")
LISTS_LATER = ("fused", *OF_FULL, "processes", "phases")
LATER = ("profile", "subscription", "tunables", "design", "manager", "instrumentation", "method", "library", "kernel",
         "optimisation", "hidden", "activation", "image_size", "passes", "nodes", "features", "nonzeros", "users",
         "items", "words", "negatives", "width", "skew", "block", "promise", "fits", "every",
         "shapes", *(name for driver in ("cluster", *ADVISED_DRIVERS) for name in DRIVER_FACTORS[driver]))  # fmt: skip


def test_an_old_run_file_is_read_and_keeps_its_hash(run_file: Path) -> None:
    line = json.loads(run_file.read_text().splitlines()[0])
    assert (line.pop("backend"), line.pop("repeat")) == (None, 1)
    assert {line["spec"].pop(name) for name in LATER} == {None}
    assert {name: line["spec"].pop(name) for name in VALUES_BEFORE} == VALUES_BEFORE
    assert [line.pop(name) for name in LISTS_LATER] == [[]] * len(LISTS_LATER)
    assert {row.pop(name) for row in line["counters"] for name in LOCK_TIMES} == {None}
    assert {line["machine"].pop(name) for name in CLOCKS} == {None}
    run_file.write_text(json.dumps(line) + "\n")
    (run,) = record.read(run_file)
    assert run.content_sha256 == OLD_HASH
    assert run.content_sha256 == sha256_of(line)


@pytest.mark.parametrize(
    ("strategy", "sha256"),
    [
        ("tf_lock", "fc212f3262069bda9d2774ffbf3cbe919edc68caea8adbfb18c5540a1b54d3d0"),
        (EMULATED, "04a52b7e6f321f8cae1e33ba8cd7203dd7695619372924801585d951d39d4f9f"),
        (SOFTWARE_TM, "7b9d50d987dc15ac2cf6693f67e0b17223f33e4c9b456b18562ce7afd463afa6"),
    ],
    ids=["tf_lock", "htm", "stm"],
)
def test_runs_keep_the_hash_that_they_had_before_the_native_driver(strategy: Any, sha256: str) -> None:
    assert sample_runs(strategies=(strategy,))[0].content_sha256 == sha256


@given(st.lists(st.tuples(st.floats(0, 1e300), st.floats(0, 1)), min_size=1))
@example([(1e-5, 1e-5), (1e-4, 1e-4), (9999999999999998.0, 0.0), (1e16, 1.0)])
def test_the_hash_is_of_canonical_json_whatever_the_floats(points: list[tuple[float, float]]) -> None:
    curve = [{"iteration": i, "elapsed_s": at, "accuracy": reached} for i, (at, reached) in enumerate(points)]
    (run,) = sample_runs(strategies=(SOFTWARE_TM,), threads=(2,), rounds=1)
    other = record.parse_line(json.dumps(run.model_dump(mode="json") | {"curve": curve}), "here")
    assert [(point.elapsed_s, point.accuracy) for point in other.curve] == points
    assert other.content_sha256 == sha256_of(said_by(other))


def said_by(run: record.Run) -> dict[str, Any]:
    """The input of the hash of such a run."""
    said = run.model_dump(mode="json", exclude={"backend", "repeat", *LISTS_LATER})
    kept = {"dropout_keep", "provider", "budget", "spending", "chunk"}
    for rows, later in ((said["counters"], LOCK_TIMES), ([said["machine"]], record.MachineState.LATER)):
        for row in rows:
            for name in later:
                del row[name]
    said["spec"] = {
        name: value
        for name, value in said["spec"].items()
        if name not in VALUES_BEFORE and (value is not None or name in kept)
    }
    return said


def told(entry: Any) -> dict[str, Any]:
    """The fields of an entry of a list, without later ones that it does not have."""
    return {name: value for name, value in entry.model_dump().items() if value is not None or name not in entry.LATER}


@pytest.mark.parametrize("name", sorted(content_hash.LISTS))
def test_every_list_is_spelt_as_canonical_json_spells_it(name: str) -> None:
    (run,) = sample_runs(strategies=(SOFTWARE_TM,), threads=(2,), rounds=1, **FULL | CLUSTER)
    entries = getattr(run, name)
    assert entries
    odd = {
        "variable": 'é"\\\n\x1f\u2028/',
        "n": 2**64,
        "updates": 2**64,
        "lock_held_s": 1e-5,
        "host": "\u2028",
        "seconds": 1e-5,
        "bytes": 2**64,
    }
    for field, value in odd.items():
        changed = [entry.model_copy(update={field: value} if field in vars(entry) else {}) for entry in entries]
        assert (
            bytes(content_hash.serialise_list(changed)) == canonical_json([told(entry) for entry in changed]).encode()
        )


@pytest.mark.parametrize("value", [None, True, 0, 2**64, 1e-5, 1e16, -0.0, 0.1, 'é"\\\n\x1f\u2028/'], ids=repr)
def test_every_field_is_spelt_as_canonical_json_spells_it(value: object) -> None:
    (run,) = sample_runs(strategies=("nolock",), threads=(1,), rounds=1)
    changed = {"reason": value, "dataset_sha256": value}
    assert run.model_copy(update=changed).content_sha256 == sha256_of(said_by(run) | changed)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_has_no_hash(value: float) -> None:
    run = sample_runs()[0]
    point = run.curve[0].model_copy(update={"elapsed_s": value})
    for changes in ({"loop_s": value}, {"curve": [point]}):
        with pytest.raises(ValueError, match="JSON"):
            assert run.model_copy(update=changes).content_sha256


def test_what_the_clocks_did_is_in_the_hash() -> None:
    run = sample_runs(strategies=("nolock",))[0]
    assert run.machine
    slept = run.model_copy(update={"machine": run.machine.model_copy(update={"suspended_s": 0.0})})
    assert slept.content_sha256 != run.content_sha256


def test_a_further_repeat_is_in_the_hash() -> None:
    run = sample_runs(strategies=("nolock",))[0]
    assert run.model_copy(update={"repeat": 2}).content_sha256 != run.content_sha256


def test_the_repeats_of_a_run_file_are_its_highest(run_file: Path) -> None:
    assert lines.repeats_in(run_file) == 1
    runs = list(record.read(run_file))
    further = [run.model_copy(update={"repeat": 3, "uid": f"{run.uid}-3"}) for run in runs]
    record.write(run_file, [*further, *runs])
    assert lines.repeats_in(run_file) == 3
    run_file.write_text("no run\n")
    assert lines.repeats_in(run_file) == 1


@pytest.mark.parametrize("repeat", [0, -1, 101, 1.5])
def test_a_repeat_that_cannot_be_is_refused(run_file: Path, repeat: float) -> None:
    line = json.loads(run_file.read_text().splitlines()[0])
    run_file.write_text(json.dumps(line | {"repeat": repeat}) + "\n")
    with pytest.raises(BadInput, match="line 1: repeat: "):
        list(record.read(run_file))


def test_whatever_full_measures_find_is_in_the_hash() -> None:
    (run,) = sample_runs(strategies=("nolock",), threads=(2,), rounds=1, **FULL)
    counters = [row.model_copy(update=dict.fromkeys(LOCK_TIMES)) for row in run.counters]
    others = [run.model_copy(update=change) for change in ({name: []} for name in OF_FULL)]
    others.append(run.model_copy(update={"counters": counters}))
    assert len({other.content_sha256 for other in [run, *others]}) == 7


def test_the_processes_and_phases_of_a_cluster_are_in_the_hash() -> None:
    (run,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1, **CLUSTER)
    before_traffic = [phase.model_copy(update=dict.fromkeys(TRAFFIC)) for phase in run.phases]
    changes: list[dict[str, Any]] = [{"processes": []}, {"phases": []}, {"phases": before_traffic}]
    earlier = run.model_copy(update=changes[-1])
    assert len({other.content_sha256 for other in [run, *(run.model_copy(update=change) for change in changes)]}) == 4
    lists = run.model_dump(include={"processes"}) | {
        "phases": [phase.model_dump(exclude_none=True) for phase in run.phases]
    }
    assert run.content_sha256 == sha256_of(said_by(run) | lists)
    untold = [phase.model_dump(exclude=set(TRAFFIC)) for phase in run.phases]
    assert earlier.content_sha256 == sha256_of(said_by(run) | lists | {"phases": untold})


def test_what_is_emulated_shows_no_time_under_locks() -> None:
    (emulated,) = sample_runs(strategies=(EMULATED,), threads=(2,), rounds=1, measures="full")
    (measured,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1, measures="full")
    assert {row[name] for row in record.shown(emulated)["counters"] for name in LOCK_TIMES} == {None}
    assert {row[name] for row in record.shown(measured)["counters"] for name in LOCK_TIMES} == {0.001, 0.002}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reads": [{"worker": 0, "variable": "W", "reads": 1, "torn": 2}]}, "torn 2 is more than reads 1"),
        ({"lost": [{"variable": "W", "expected": 1, "lost": 2}]}, "lost 2 is more than expected 1"),
        (
            {"lost": [{"variable": "W", "expected": 1, "lost": 0, "elements": 1, "inconsistent": 2}]},
            "inconsistent 2 is more than elements 1",
        ),
        (
            {"lost": [{"variable": "W", "expected": 1, "lost": 0, "inconsistent": 2}]},
            "inconsistent and elements belong together",
        ),
        ({"retries": [{"worker": 0, "variable": "W", "retries": 64, "sections": 1}]}, "retries"),
        ({"taken_blocks": [{"worker": 0, "variable": "W", "taken_blocks": 64, "updates": 1}]}, "taken_blocks"),
    ],
)
def test_counts_that_cannot_be_are_refused(change: dict[str, object], says: str) -> None:
    good = sample_runs()[0].model_dump()
    with pytest.raises(ValidationError, match=says):
        record.Run.model_validate({**good, **change})


def test_what_a_backend_was_given_is_in_the_hash() -> None:
    run = sample_runs(strategies=(EMULATED,))[0]
    other = run.model_copy(update={"backend": backend("intel-tsx-study", l1d_ways=12)})
    assert other.content_sha256 != run.content_sha256


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"backend": None}, "evidence 'emulated' needs a backend of kind 'emulator', and the run has no backend"),
        (
            {"evidence": "measured"},
            "evidence 'measured' needs no backend, and the run has a backend of kind 'emulator'",
        ),
        (
            {"evidence": "simulated"},
            "evidence 'simulated' needs a backend of kind 'simulator', and the run has a backend of kind 'emulator'",
        ),
    ],
)
def test_an_evidence_has_its_backend_and_no_other(changes: dict[str, object], says: str) -> None:
    good = sample_runs(strategies=(EMULATED,))[0].model_dump()
    assert record.Run.model_validate(good).backend == backend("intel-tsx-study")
    with pytest.raises(ValidationError, match=says):
        record.Run.model_validate({**good, **changes})


def test_garbage_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "garbage.jsonl").write_text("not json\n")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\n")
    for name, says in (("garbage", "not JSON"), ("binary", "not UTF-8"), ("missing", "cannot be read")):
        with pytest.raises(BadInput, match=says):
            list(record.read(tmp_path / f"{name}.jsonl"))


def test_error_xor_result() -> None:
    good = sample_runs()[0].model_dump()
    with pytest.raises(ValidationError, match="final_accuracy"):
        record.Run.model_validate({**good, "status": "failed", "reason": "it broke"})
    with pytest.raises(ValidationError, match="no reason"):
        record.Run.model_validate({**good, "reason": "why?"})
    with pytest.raises(ValidationError, match="has loop_s and final_accuracy"):
        record.Run.model_validate({**good, "final_accuracy": None})


def test_a_run_of_the_users_own_model_is_only_timed() -> None:
    own = own_runs(ARRAYS)[0].model_dump()
    assert own["final_accuracy"] is None
    with pytest.raises(ValidationError, match="a run of driver arrays is only timed, and has no final_accuracy"):
        record.Run.model_validate({**own, "final_accuracy": 0.5})
    with pytest.raises(ValidationError, match="has loop_s"):
        record.Run.model_validate({**own, "loop_s": None})
