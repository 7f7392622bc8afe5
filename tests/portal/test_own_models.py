"""Runs of users' own models in the portal: listed, shown, explored and compared, and no part of the study's results."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import commands, opened, texts
from seed import seed_database
from sqlalchemy import URL

from tests.support.own_runs import ARRAYS, KERAS, own_runs
from tmflow.charts.captions import workload
from tmflow.charts.explore import MEASURES
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.store import engine, queries
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RunFilter

VIEWS = sorted(path.stem for path in (Path(__file__).parents[2] / "portal" / "views").glob("*.py"))
RUNS: dict[str, list[Run]] = {"arrays": own_runs(ARRAYS), "keras": own_runs(KERAS)}
OWN = {"experiment": "advise", "scale": "adhoc"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """The seeded experiments, and two advices."""
    folder = tmp_path_factory.mktemp("own")
    url = seed_database(folder, rounds=2, strategies=("tf_lock",), transactions=False)
    for name, runs in RUNS.items():
        record.write(folder / f"{name}.jsonl", runs)
    ingest(url, [folder / f"{name}.jsonl" for name in RUNS])
    return url


@pytest.fixture(scope="module")
def nothing_else(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """Two advices, and no run of the study."""
    folder = tmp_path_factory.mktemp("nothing_else")
    record.write(folder / "runs.jsonl", [run for runs in RUNS.values() for run in runs])
    url = URL.create("sqlite", database=str(folder / "study.db"))
    ingest(url, [folder / "runs.jsonl"])
    return url


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_opens(view: str, own: URL, nothing_else: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    for database in (own, nothing_else):
        opened(view, database, monkeypatch)


def test_the_list_finds_them_by_model_and_driver(own: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("runs", own, monkeypatch, model="own_model", driver="keras", shapes=KERAS["shapes"])
    assert not app.warning
    assert f"**{len(RUNS['keras'])}** of " in texts(app)
    (listed,) = (element.value for element in app.dataframe)
    assert set(listed["experiment"]) == {"advise"}
    app = opened("runs", own, monkeypatch, model="own_model", step_us="20.0", columns=["shapes", "step_us"])
    assert not app.warning
    (listed,) = (element.value for element in app.dataframe)
    assert set(listed["shapes"]) == {ARRAYS["shapes"]}


@pytest.mark.parametrize("subject", RUNS)
def test_a_run_shows_its_factors_and_the_command_of_its_advice(
    subject: str, own: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, counting = RUNS[subject][0], RUNS[subject][-1]
    app = opened("runs", own, monkeypatch, run=usual.uid)
    assert not app.warning
    (command,) = commands(app)
    assert command.startswith("tmflow advise ")
    assert command.endswith(" --workers 2 --consistency block --save")
    assert {metric.label for metric in app.metric} == {"Loop", "Time per step"}
    shown = [dict(zip(element.value["name"], element.value["value"], strict=True))
             for element in app.dataframe if list(element.value) == ["name", "value"]]  # fmt: skip
    assert shown[0]["shapes"] == usual.spec.shapes
    app = opened("runs", own, monkeypatch, run=counting.uid)
    assert "Lost updates" in texts(app)


@pytest.mark.parametrize("kind", MEASURES)
def test_every_measure_is_explored_or_says_why_not(kind: str, own: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("explore", own, monkeypatch, **OWN, metric=kind)
    assert not app.error
    assert not app.warning
    if kind in ("step_time", "speedup", "lost"):
        assert len(app.get("vega_lite_chart")) >= 1
    elif kind == "accuracy":
        assert app.info[0].value.startswith("Nothing to draw: no run of it measured that")


def test_the_caption_describes_the_model_by_its_variables(own: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a model of the user" in texts(opened("explore", own, monkeypatch, **OWN, metric="step_time", facet="none"))
    runs = queries.runs(engine.open_reader(own), RunFilter(experiments=["advise"]))
    assert {workload(run) for _, run in runs.iterrows()} == {
        "a model of the user: 6 variables of 403 elements in all, batch 4, 3,200 steps in all, learning rate 0.01; "
        "keras driver, 16 steps in a call.",
        "a model of the user: variables of 100x10,10, batch 1, 3,200 steps in all, learning rate 1; arrays driver, "
        "20 us of work in a step.",
    }


def test_two_strategies_are_compared_by_speed_and_not_by_accuracy(own: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = {"a.experiment": "advise", "a.scale": "adhoc", "b.experiment": "advise", "b.scale": "adhoc",
             "a.variant": "lock", "b.variant": "striped", "a.strategy": "lock", "b.strategy": "striped"}  # fmt: skip
    speed = texts(opened("compare", own, monkeypatch, **sides))
    assert "times as fast as A" in speed
    accuracy = texts(opened("compare", own, monkeypatch, **sides, metric="accuracy"))
    assert "a run of a user's own model is only timed" in accuracy
