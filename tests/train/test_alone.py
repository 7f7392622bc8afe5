"""tmflow-native where there is NumPy and nothing else: its runs are those of the package's native driver."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import venv
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import make_url

from tests.train.conftest import checked
from tmflow import datasets
from tmflow.alone import plan
from tmflow.alone.rounds import Round
from tmflow.base.paths import project_root
from tmflow.bundle.verify import verify
from tmflow.datasets import mnist as mnist_files
from tmflow.native import loader, registry
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.probe.document import parse
from tmflow.runfile import record
from tmflow.store.ingest import ingest
from tmflow.training import native_driver
from tmflow.training.measurement import TrialData

SOURCES = project_root() / "src"
NATIVE = "native-softmax"
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with NumPy alone: not even pip."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for its in Path(np.__file__).parents[1].glob("numpy*"):
        (site / its.name).symlink_to(its)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def call(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Calls tmflow-native in an empty folder."""
    folder = tmp_path_factory.mktemp("empty")
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("TMFLOW_RESULTS_DIR", "VIRTUAL_ENV")},
        "PYTHONPATH": str(SOURCES),
        "TMFLOW_NATIVE_DIR": str(loader.library_dir()),
        "TMFLOW_DATA_DIR": str(mnist_files.obtain()),
    }

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [bare, "-m", "tmflow.alone", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return call


@pytest.fixture(scope="module")
def measured(call: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a round."""
    results = tmp_path_factory.mktemp("results")
    done = call("run", "--experiment", NATIVE, "--rounds", "1", "--results", str(results))
    assert done.returncode == 0, done.stderr
    assert f"1 of 1: {NATIVE}, round 1: " in done.stdout
    return results


@pytest.fixture(scope="module")
def runs(measured: Path) -> list[record.Run]:
    (file,) = measured.glob(f"runs/full/{NATIVE}/*/round-001.jsonl")
    return list(record.read(file))


def test_the_environment_has_numpy_and_nothing_else(bare: Path) -> None:
    listed = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    done = subprocess.run([bare, "-I", "-c", listed], capture_output=True, text=True, check=True)
    assert done.stdout == "numpy\n"


def test_a_run_file_is_stored_and_a_bundle_is_in_order(call: Command, measured: Path, tmp_path: Path) -> None:
    files = sorted(measured.glob("runs/*/*/*/*.jsonl"))
    report = ingest(make_url(f"sqlite:///{tmp_path}/study.db"), files)
    assert report.runs_new == len(plan.study().at("full", [NATIVE])[0].points_for(os.cpu_count() or 1))
    done = call("export", "--results", str(measured), "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (bundle,) = tmp_path.glob("*.zip")
    found = verify(bundle)
    assert found.ok, found.problems
    assert found.identity in done.stdout


def test_one_worker_ends_as_under_the_package_s_own_driver(runs: list[record.Run], mnist: datasets.Dataset) -> None:
    seen = 0
    for run in runs:
        if run.spec.threads > 1 or run.spec.strategy == "htm" or run.status != "ok":
            continue
        trial_data = TrialData.make(mnist, run.spec.matrix, run.trial_seed)
        own = checked(native_driver.Variant(run.spec).run(run.spec, run.trial_seed, trial_data))
        assert (run.final_accuracy, run.counters, run.aborts) == (own.final_accuracy, own.counters, own.aborts)
        assert run.staleness == own.staleness
        seen += 1
    assert seen == 4  # lock, nolock, striped, block_stm


def test_a_run_says_what_one_of_the_package_says(runs: list[record.Run]) -> None:
    (experiment,) = plan.study().at("full", [NATIVE])
    for run in runs:
        assert run.experiment.model_dump() == experiment.reference
        assert run.software.tensorflow is None
        assert run.platform
        assert (run.environment["tm_enabled"] or None) == ((registry.tm_probe() or {}).get("committed", 0) > 0 or None)
    assert [run.ordinal for run in runs] == list(range(len(runs)))
    assert {run.spec.sha256 for run in runs} <= {point.sha256 for point in experiment.points}


def test_what_is_measured_is_not_measured_again(call: Command, measured: Path) -> None:
    done = call("run", "--experiment", NATIVE, "--rounds", "1", "--results", str(measured))
    assert (done.returncode, done.stdout) == (0, "Everything is measured already.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frob"], "invalid choice: 'frob'"),
        (["run", "--experiment", "fig-4.7"], "unknown experiment at scale full 'fig-4.7'; valid: native-softmax, "),
        (["run", "--rounds", "0"], "'0' should be a whole number from 1 to"),
        (["bench", "--strategy", "lok"], "did you mean 'lock'"),
        (["export", "--results", "nowhere"], "nothing to export"),
        (["probe", "--seconds", "1"], "--seconds is 1, but should be 5 to 600"),
    ],
)
def test_bad_input_is_one_sentence(call: Command, arguments: list[str], said: str) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.startswith("tmflow-native: ")
    assert done.stderr.count("\n") == 1


def test_it_says_what_there_is_and_what_an_update_costs(call: Command) -> None:
    listed = json.loads(call("plan", "--json", "--processors", "4").stdout)
    assert {"id": NATIVE, "rounds": 6, "trials": 90} in listed
    found = json.loads(call("doctor", "--json").stdout)
    assert {finding["name"]: finding["state"] for finding in found}["MNIST"] == "ok"
    assert {finding["name"]: finding["runnable"] for finding in found}["strategy striped"] is True
    assert found[-1]["advice"] == "tmflow-native probe && tmflow-native run && tmflow-native export"
    few = ("--elements", "10", "--threads", "1", "--strategy", "lock", "--rounds", "1")
    done = call("bench", *few, "--gradient", "constant", "--json")  # of so little work, writing may hide the update
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    (lock,) = [row for row in rows if row["variant"] == "lock"]
    assert lock["us_per_update"] > 0
    assert lock["lost_fraction"] == 0


def test_a_doctor_that_finds_mnist_damaged_ends_with_1(call: Command, tmp_path: Path) -> None:
    for file in mnist_files.obtain().glob("*-ubyte*"):
        (tmp_path / file.name).write_bytes(file.read_bytes()[:5000])
    for asked in ([], ["--json"]):
        done = call("doctor", "--data", str(tmp_path), *asked)
        assert done.returncode == 1, done.stderr
        assert "MNIST" in done.stdout


def test_an_empty_list_is_no_experiment_rather_than_all(call: Command) -> None:
    done = call("run", "--experiment", "")
    assert done.returncode == 2
    assert "unknown experiment at scale full ''; valid: native-softmax, " in done.stderr


def test_a_process_says_nothing_when_its_parent_is_killed(bare: Path) -> None:
    (experiment,) = plan.study().at("full", [NATIVE])
    job = {"scale": "full", "experiment": NATIVE, "points": [experiment.points[0].sha256], "number": 1}
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "TMFLOW_DATA_DIR": str(mnist_files.obtain())}
    command = [bare, "-m", "tmflow.alone.process", json.dumps(job)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGPIPE


def test_a_probe_goes_into_the_bundle(call: Command, measured: Path, tmp_path: Path) -> None:
    done = call("probe", "--seconds", "5", "--results", str(measured), "--json")
    assert done.returncode == 0, done.stderr
    found = parse((measured / "probe.json").read_text(), "the probe")
    assert found.as_dict() == parse(done.stdout, "what was printed").as_dict()
    assert found.platform_sha256 == platform_sha256(platform_facts())
    assert call("export", "--results", str(measured), "--out", str(tmp_path)).returncode == 0
    (bundle,) = tmp_path.glob("*.zip")
    assert "probe.json" in zipfile.ZipFile(bundle).namelist()
    assert verify(bundle).ok


# --- trials that hang or kill their process --------------------------------------------------------------------------


@pytest.fixture
def one_point(tmp_path: Path) -> Iterator[Callable[..., Round]]:
    """A round of one point that takes a second of processor time or more; `changes` are the experiment's, or its."""
    (experiment,) = plan.study().at("full", ["time-to-accuracy"])

    def made(environment: dict[str, str], **changes: Any) -> Round:
        changed = dataclasses.replace(experiment, **changes)
        point = dataclasses.replace(experiment.points[0], environment=environment)
        return Round({"uid": "0" * 8, "created_at_utc": "now"}, changed, 1, [point], tmp_path / "round-001.jsonl")

    return made


def recorded(one: Round) -> record.Run:
    one.run()
    (run,) = record.read(one.run_file)
    assert one.statuses() == Counter([run.status])
    return run


def test_a_trial_that_takes_too_long_is_recorded(one_point: Callable[..., Round]) -> None:
    run = recorded(one_point({}, trial_timeout_s=0.05))
    assert (run.status, run.reason) == ("timeout", "its warm-up took longer than 0.05 s")


def test_a_trial_that_kills_its_process_twice_is_recorded(one_point: Callable[..., Round], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))")
    run = recorded(one_point({"PYTHONPATH": f"{tmp_path}:{SOURCES}"}))
    assert run.status == "failed"
    assert (run.reason or "").endswith("was ended by SIGKILL")


def test_every_point_of_the_study_can_be_read() -> None:
    """Also those of emulated processors, whose profiles are YAML where the whole package is."""
    for experiment in plan.study().experiments:
        for point in experiment.points:
            assert point.spec.strategy == point.factors["strategy"]
            assert (point.backend is not None) == (point.evidence == "emulated")
