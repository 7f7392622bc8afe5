"""Bundles of the static program: for the same results folder, identical to those that Python exports."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpp
import pytest
from runner import EMULATORS, FOREIGN

from tests.support.sample_bundles import write_results
from tests.support.sample_runs import sample_runs
from tmflow.bundle.verify import verify
from tmflow.bundle.writer import Exported
from tmflow.bundle.writer import export as export_in_python
from tmflow.store.run_filter import RunFilter

pytestmark = pytest.mark.slow

Export = Callable[[Path, Path], dict[str, Any]]


@pytest.fixture(scope="module", params=["here", *FOREIGN])
def export(request: pytest.FixtureRequest, builds: cpp.Builds) -> Export:
    """Export a results folder; return a description of the bundle, or {"error": ...}."""
    program = builds.built(request.param, "runner_formats") / "runner" / "runner_formats"

    def exported(results: Path, out: Path) -> dict[str, Any]:
        question = json.dumps({"ask": "export", "results": str(results), "out": str(out)}) + "\n"
        command = [*EMULATORS[request.param], program]
        done = subprocess.run(command, input=question, capture_output=True, check=True, text=True, timeout=120)
        (answer,) = map(json.loads, done.stdout.splitlines())
        said: dict[str, Any] = answer.get("value", answer)
        return said

    return exported


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with everything that a bundle may contain, and some files that it may not."""
    results = tmp_path / "results"
    write_results(results, sample_runs(experiments=("fig_4_1", "fig_4_7"), strategies=("tf_lock", "stm"), rounds=2))
    files = {
        "runs/full/campaign.json": '{"uid": "one"}',
        "probe.json": "{}",
        "logs/build.log": "built\n",
        "logs/rounds/fig_4_1.log": "x" * (64 << 10) + "the end",
        "logs/rounds/.hidden": "no",
        "logs/a name with blanks": "no",
        "runs/full/fig_4_1/journal.json": "no",
        "runs/full/fig_4_1/0123456789ab/round-001.jsonl.99.tmp": "half a run",
        "runs/full/fig_4_1/0123456789ab/round-004.jsonl": "",
        "study.db": "no",
    }
    for name, text in files.items():
        path = results / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return results


def in_python(results: Path, out: Path) -> Exported:
    return export_in_python(results, out, RunFilter(), None)


@pytest.mark.deep
def test_its_bundle_is_the_one_that_python_exports(export: Export, results: Path, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    theirs, ours = in_python(results, tmp_path / "theirs"), export(results, tmp_path / "ours")
    assert ours["identity"] == theirs.identity
    assert ours["runs"] == theirs.runs == len(sample_runs(("a", "b"), ("tf_lock", "stm"), rounds=2))
    assert Path(ours["path"]).name == theirs.path.name
    with zipfile.ZipFile(ours["path"]) as mine, zipfile.ZipFile(theirs.path) as python_zip:
        assert mine.namelist() == python_zip.namelist()
        assert {name: mine.read(name) for name in mine.namelist()} == {
            name: python_zip.read(name) for name in python_zip.namelist()
        }
        assert {"campaign.json", "probe.json", "logs/build.log", "logs/rounds/fig_4_1.log"} <= set(mine.namelist())


def test_nothing_is_wrong_with_it(export: Export, tmp_path: Path) -> None:
    write_results(tmp_path / "results", runs := sample_runs())
    ours = export(tmp_path / "results", tmp_path / "one.zip")
    found = verify(tmp_path / "one.zip")
    assert [problem for problem in found.problems if problem.severity == "error"] == []
    assert (found.identity, found.runs) == (ours["identity"], len(runs))


def test_the_same_content_gives_the_same_bytes(export: Export, results: Path, tmp_path: Path) -> None:
    one, two = (export(results, tmp_path / name) for name in ("one.zip", "two.zip"))
    assert Path(one["path"]).read_bytes() == Path(two["path"]).read_bytes()


@pytest.mark.parametrize("facts", [{"cpu_model": None, "threads_logical": None}, {"cpu_model": "POWER8 (raw)"}])
def test_a_machine_is_named_as_python_names_it(export: Export, tmp_path: Path, facts: dict[str, Any]) -> None:
    write_results(tmp_path / "results", sample_runs(strategies=("tf_lock",), rounds=1, platform=facts))
    theirs, ours = in_python(tmp_path / "results", tmp_path), export(tmp_path / "results", tmp_path)
    assert (Path(ours["path"]).name, ours["identity"]) == (theirs.path.name, theirs.identity)


def test_nothing_to_export_is_said(export: Export, tmp_path: Path) -> None:
    said = export(tmp_path / "nowhere", tmp_path / "one.zip")
    assert said["error"] == f"nothing to export: no runs in {tmp_path}/nowhere/runs"
    assert not list(tmp_path.iterdir())


def test_two_machines_are_no_bundle(export: Export, results: Path, tmp_path: Path) -> None:
    write_results(results, sample_runs(experiments=("zz",), platform={"memory_bytes": 1 << 30}))
    assert "line 1 is from another platform" in export(results, tmp_path / "one.zip")["error"]
    assert not (tmp_path / "one.zip").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text[:-1], "truncated"),
        (lambda text: text[:-9] + "\n", "not JSON at byte"),
        (lambda text: text.replace('"environment": {', '"surroundings": {'), "the field 'environment' is missing"),
        (lambda text: text.replace('"platform": {', '"platform": {"isa": 1, '), "twice"),
    ],
)
def test_a_damaged_run_file_is_named(
    export: Export, results: Path, tmp_path: Path, change: Callable[[str], str], why: str
) -> None:
    file = next((results / "runs").rglob("round-002.jsonl"))
    file.write_text(change(file.read_text()))
    error = export(results, tmp_path / "one.zip")["error"]
    assert error.startswith(f"run file {file}")
    assert why in error
    assert not (tmp_path / "one.zip").exists()
