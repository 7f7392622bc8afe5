"""`tmflow advise --save`: its runs are stored, exported, verified and imported like any other, with the same times."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import Tmflow, environment
from tests.own_model.digits import prepare_more_ways
from tmflow.advice import advice, measurement
from tmflow.advice.cases import cases_of
from tmflow.base.errors import BadInput
from tmflow.base.locks import machine_to_itself
from tmflow.bundle.rules.expectations import expect
from tmflow.native.loader import library_dir
from tmflow.runfile import record
from tmflow.store import engine, queries
from tmflow.store.run_filter import RunFilter

SIZES = ("advise", "--variables", "100x10,10", "--step-us", "20", "--seconds", "10", "--save")
TRAINING = """
def build():
    import keras, numpy as np, tensorflow as tf
    draw = np.random.default_rng(1)
    images, labels = draw.random((800, 20), np.float32), draw.integers(0, 3, 800)
    secret = keras.layers.Dense(5, activation="relu", name="secret_layer")
    model = keras.Sequential([keras.Input((20,)), secret, keras.layers.Dense(3, activation="softmax")])
    model.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy")
    return model, tf.data.Dataset.from_tensor_slices((images, labels)).batch(4)
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder of its own."""
    monkeypatch.setenv("TMFLOW_NATIVE_DIR", str(library_dir()))
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(folder))
    monkeypatch.delenv("TMFLOW_DB_URL", raising=False)
    return folder


def stored(database: Path) -> pd.DataFrame:
    return queries.runs(engine.open_reader(engine.sqlite_url(database)), RunFilter()).sort_values("uid")


def check_all(tmflow: Tmflow, results: Path, saved: Path) -> list[record.Run]:
    """The runs of the files are those of the database, and those of another one that imports their bundle."""
    files = sorted(saved.iterdir())
    runs = [run for file in files for run in record.read(file)]
    assert [file.name for file in files] == [f"round-{number:03}.jsonl" for number in range(1, len(files) + 1)]
    assert sorted(path.name for path in results.iterdir() if path.name.startswith(".")) == []
    bundle, other = results.parent / "bundle.zip", results.parent / "other.db"
    for arguments in (("export", "--output", bundle), ("verify", bundle)):
        done = tmflow("bundle", *map(str, arguments))
        assert done.returncode == 0, done.stdout + done.stderr
    for command in (("bundle", "import", str(bundle)), ("db", "check")):
        done = tmflow(*command, TMFLOW_DB_URL=f"sqlite:///{other}")
        assert done.returncode == 0, done.stdout + done.stderr
    assert tmflow("db", "check").returncode == 0
    here, there = stored(results / "study.db"), stored(other)
    times = {run.uid: run.loop_s for run in runs}
    for table in (here, there):
        assert dict(zip(table["uid"], table["loop_s"], strict=True)) == times
        assert table["final_accuracy"].isna().all()
    usual = [run for run in runs if run.spec.measures == "usual"]
    for number in {run.round for run in usual}:
        in_order = sorted((run for run in usual if run.round == number), key=lambda run: run.ordinal)
        started = [run.started_at_utc for run in in_order]
        assert started == sorted(started)
        assert len({run.trial for run in in_order}) == len(in_order)
    assert {(run.experiment.name, run.experiment.scale, run.dataset_sha256) for run in runs} == {
        ("advise", "adhoc", None)
    }
    return runs


@pytest.mark.slow
def test_the_runs_of_sizes_travel(tmflow: Tmflow, results: Path) -> None:
    done = tmflow(*SIZES, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert done.stderr.strip() == (
        f"tmflow: the runs are stored in database {results / 'study.db'}, their files in {said['saved']}."
    )
    saved = Path(said["saved"])
    assert saved.parent == results / "runs" / "adhoc" / "advise"
    runs = check_all(tmflow, results, saved)
    assert {run.campaign.uid for run in runs} == {saved.name}
    row = said["ranking"][0]
    own = [
        run for run in runs
        if run.spec.strategy == row["strategy"].replace("auto", "adaptive") and run.spec.threads == row["workers"]
        and run.spec.measures == "usual"
    ]  # fmt: skip
    assert len(own) == said["rounds"]
    us = np.exp(np.mean([np.log(1e6 * (run.loop_s or 0) / run.spec.iterations) for run in own]))
    assert us == pytest.approx(row["us_per_step"])
    assert {(run.spec.driver, run.spec.shapes, run.spec.step_us) for run in runs} == {("arrays", "100x10,10", 20.0)}
    counting = [run for run in runs if run.spec.measures == "full"]
    assert {run.spec.strategy for run in counting} >= {"nolock"}
    for run in counting:
        assert [(row.variable, row.expected) for row in run.lost] == [
            ("variable 1", 1000 * run.spec.iterations), ("variable 2", 10 * run.spec.iterations)
        ]  # fmt: skip


@pytest.mark.slow
def test_the_runs_of_a_model_travel_without_its_names_and_data(
    tmflow: Tmflow, tmflow_here: Tmflow, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("keras", reason="Keras comes with TensorFlow")
    prepare_more_ways(monkeypatch)
    (tmp_path / "secret_file.py").write_text(TRAINING)
    done = tmflow_here("advise", f"{tmp_path / 'secret_file.py'}:build", "--seconds", "30", "--save", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    runs = check_all(tmflow, results, Path(said["saved"]))
    assert "secret" not in "".join(file.read_text() for file in Path(said["saved"]).iterdir())
    specs = {(run.spec.driver, run.spec.shapes, run.spec.batch, run.spec.learning_rate) for run in runs}
    assert specs == {("keras", "20x5,5,5x3,3", 4, 0.01)}
    assert None not in {run.spec.steps_per_call for run in runs}
    (case,) = [case for case in cases_of(stored(results / "study.db")) if case.workers == 2]
    assert (case.model, case.elements) == (f"own_model {runs[0].spec.architecture[:8]}", 20 * 5 + 5 + 5 * 3 + 3)
    assert {"lock", "striped"} <= set(case.us)
    ways = {(row["strategy"], row["workers"]) for row in said["ranking"] if row["strategy"]}
    assert len({(run.spec.strategy, run.spec.threads) for run in runs}) == len(ways)  # none of Keras's own optimizer
    counting = [run for run in runs if run.lost]
    assert counting
    for run in counting:
        expected = expect(run.spec, None)
        assert {row.variable: row.expected for row in run.lost} == {
            name: n * run.spec.iterations for name, n in expected.elements.items()
        }


@pytest.mark.slow
def test_the_runs_of_rows_travel(tmflow: Tmflow, results: Path) -> None:
    done = tmflow("advise", "--variables", "500x4:3,10", "--step-us", "5", "--seconds", "10", "--save", "--json")
    assert done.returncode == 0, done.stderr
    runs = check_all(tmflow, results, Path(json.loads(done.stdout)["saved"]))
    assert {run.spec.shapes for run in runs} == {"500x4:3,10"}
    (counting,) = [run for run in runs if run.spec.strategy == "nolock" and run.spec.measures == "full"]
    assert [row.expected for row in counting.lost] == [12 * counting.spec.iterations, 10 * counting.spec.iterations]


@pytest.mark.slow
def test_the_runs_of_rounds_with_fewer_steps_travel(
    tmflow: Tmflow, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round takes longer than planned."""
    time_slice = measurement.time_slice

    def with_pauses(subject: Any, way: Any, calls: int, round: int, *place: Any) -> measurement.Slice:
        if round == 1:
            time.sleep(0.4)
        return time_slice(subject, way, calls, round, *place)

    monkeypatch.setattr(measurement, "time_slice", with_pauses)
    given = advice.advise_for_sizes("100x10,10", 20.0, seconds=10, save=True)
    runs = check_all(tmflow, results, Path(str(given.saved)))
    for row in given.ranking:
        strategy = str(row.way.strategy).replace("auto", "adaptive")
        own = [
            run for run in runs
            if (run.spec.strategy, run.spec.threads, run.spec.measures) == (strategy, row.way.workers, "usual")
        ]  # fmt: skip
        steps = {run.round: run.spec.iterations for run in own}
        assert steps[1] > steps[2] >= row.way.workers
        us = np.exp(np.mean([np.log(1e6 * (run.loop_s or 0) / run.spec.iterations) for run in own]))
        assert us == pytest.approx(row.us)


@pytest.mark.slow
def test_a_killed_advice_leaves_nothing(results: Path) -> None:
    command = [sys.executable, "-m", "tmflow", *SIZES]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line == "round 2\n":
                process.send_signal(signal.SIGKILL)
                break
        process.wait()
    assert not list(results.iterdir())


def refused(monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> None:
    """Ask for an advice that is to be saved, and fail if it begins to measure."""

    def measure(*given: Any) -> None:
        raise AssertionError("it began to measure")

    monkeypatch.setattr("tmflow.advice.measurement.steps_of_call", measure)
    advice.advise_for_sizes(**{"variables": "100x10,10", "step_us": 20.0, "save": True, **arguments})


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_measured(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(tmp_path / "file"))
    with pytest.raises(BadInput, match="file is not a folder, but must be one"):
        refused(monkeypatch)
    monkeypatch.delenv("TMFLOW_RESULTS_DIR")
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
    with pytest.raises(BadInput, match="or TMFLOW_RESULTS_DIR to a folder for results"):
        refused(monkeypatch)


def test_a_database_that_is_none_is_named_before_anything_is_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results / "study.db").write_text("no database")
    with pytest.raises(BadInput, match=r"study\.db"):
        refused(monkeypatch)


def test_shapes_that_no_spec_holds_are_refused_before_anything_is_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="the model has too many variables for a run"):
        refused(monkeypatch, variables=",".join(["1000"] * 1700))


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["study.db", "runs"])
def test_an_advice_outlives_what_refuses_its_runs(results: Path, broken: str) -> None:
    """The file `broken` is no database, or stands where the folder of the run files should be."""

    def progress(what: str) -> None:
        if what == "round 2":
            (results / broken).write_text("neither a database nor a folder")

    given = advice.advise_for_sizes("100x10,10", 20.0, seconds=10, save=True, progress=progress)
    assert given.ranking
    assert given.saved is None
    assert given.not_saved is not None
    assert str(given).splitlines()[-1] == f"Saving failed: {given.not_saved}"
    assert given.as_json()["not_saved"] == given.not_saved
    kept = list(results.glob("runs/adhoc/advise/*/round-*.jsonl"))
    if broken == "runs":
        assert " cannot be written: Not a directory" in given.not_saved
        assert not kept
    else:
        assert f"the runs are in {kept[0].parent}, but not in the database: " in given.not_saved
        assert len(kept) == given.rounds + 1


@pytest.mark.slow
def test_the_command_prints_an_advice_that_cannot_be_stored(results: Path) -> None:
    command = [sys.executable, "-m", "tmflow", *SIZES]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            if line == "round 2\n":
                (results / "study.db").write_text("no database")
                break
        said, error = process.stdout.read().splitlines(), process.stderr.read().splitlines()[-1]
    assert process.returncode == 2
    assert said[-1].strip() == "shared.apply(gradients, learning_rate)    # in each thread"
    assert error.startswith("tmflow: the runs are in ")


@pytest.mark.slow
def test_the_runs_are_stored_before_another_timed_run_may_begin(results: Path) -> None:
    counts: list[int] = []

    def wait() -> None:
        with machine_to_itself():
            counts.append(len(stored(results / "study.db")))

    waiting = threading.Thread(target=wait, daemon=True)
    given = advice.advise_for_sizes(
        "100x10,10", 20.0, seconds=10, save=True,
        progress=lambda what: waiting.start() if what == "round 2" else None,
    )  # fmt: skip
    waiting.join()
    runs = [run for file in Path(str(given.saved)).iterdir() for run in record.read(file)]
    assert counts == [len(runs)]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "rows"), [({}, 3), ({"clipnorm": 1.0}, None)])
def test_the_shapes_have_the_rows_of_an_embedding(arguments: dict[str, Any], rows: int | None) -> None:
    keras = pytest.importorskip("keras", reason="Keras comes with TensorFlow")
    import tensorflow as tf

    from tmflow.advice.rehearsal import Rehearsal
    from tmflow.spec.shapes import Shape, parse_shapes

    model = keras.Sequential([keras.Input((2,)), keras.layers.Embedding(20, 4), keras.layers.Flatten()])
    model.compile(keras.optimizers.SGD(0.1, **arguments), "mse")
    before = model.get_weights()
    words = np.array([[1, 2], [2, 7]])
    data = tf.data.Dataset.from_tensor_slices((words, np.zeros((2, 8)))).batch(2)
    rehearsal = Rehearsal(model, data, consistency="block")
    assert parse_shapes(rehearsal.factors()["shapes"]) == [Shape((20, 4), rows)]
    rehearsal.close()
    assert np.array_equal(model.get_weights()[0], before[0])
    assert model.optimizer.iterations == 0
