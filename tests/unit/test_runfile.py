"""The run file: what it accepts, and how it names what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.sample_runs import sample_runs
from tmflow.errors import BadInput
from tmflow.runner import runfile


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "round-001.jsonl"
    runfile.write(path, sample_runs())
    return path


def test_round_trip(run_file: Path) -> None:
    assert list(runfile.read(run_file)) == sample_runs()
    assert [path.name for path in run_file.parent.iterdir()] == [run_file.name]


def test_cut_in_half_is_refused_by_name(run_file: Path) -> None:
    data = run_file.read_bytes()
    run_file.write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match=rf"{run_file.name} is cut off in line \d+"):
        list(runfile.read(run_file))


def test_newer_schema_is_refused_with_what_to_do(run_file: Path) -> None:
    line = json.loads(run_file.read_text().splitlines()[0])
    run_file.write_text(json.dumps({**line, "schema_version": 99}) + "\n")
    with pytest.raises(BadInput, match=r"schema version 99 is newer than 1, .* install a newer tmflow"):
        list(runfile.read(run_file))


@pytest.mark.parametrize(
    ("change", "names"),
    [({"loop_s": -1}, "loop_s"), ({"surprise": 1}, "surprise"), ({"evidence": "guessed"}, "evidence")],
)
def test_bad_field_is_named(run_file: Path, change: dict[str, object], names: str) -> None:
    line = json.loads(run_file.read_text().splitlines()[0])
    run_file.write_text(json.dumps({**line, **change}) + "\n")
    with pytest.raises(BadInput, match=f"line 1: {names}"):
        list(runfile.read(run_file))


def test_garbage_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "garbage.jsonl").write_text("not json\n")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\n")
    for name, says in (("garbage", "not JSON"), ("binary", "not UTF-8"), ("missing", "cannot be read")):
        with pytest.raises(BadInput, match=says):
            list(runfile.read(tmp_path / f"{name}.jsonl"))


def test_error_xor_result() -> None:
    good = sample_runs()[0].model_dump()
    with pytest.raises(ValidationError, match="final_accuracy"):
        runfile.Run.model_validate({**good, "status": "failed", "reason": "it broke"})
    with pytest.raises(ValidationError, match="no reason"):
        runfile.Run.model_validate({**good, "reason": "why?"})
