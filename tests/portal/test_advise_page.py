"""The page "Advise": a ranking for sizes from published runs, its error, and what it says where there are none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pages import commands, opened, plain, texts
from seed import seed_database
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.sample_runs import sample_runs
from tmflow.base.paths import project_root
from tmflow.contributions.importer import import_bundle
from tmflow.platform.facts import platform_facts
from tmflow.runfile import record
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest

STRATEGIES = ("lock", "spin", "striped")
ONE_WORKER = "intel-xeon-processor-2t@7e623ea80341e65b"  # of whose runs only those of one worker are cases enough
NO_DIFFERENCE = "No strategy is predicted to be faster than lock by more than the model's error."


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """The published runs of two machines."""
    url = sqlite_url(tmp_path_factory.mktemp("real") / "study.db")
    for name in (
        "amd-epyc-2t-zen1/amd-epyc-2t-8a47f0151360",
        "intel-xeon-processor-2t/intel-xeon-processor-2t-7e623ea80341",
    ):
        import_bundle(url, project_root() / "contrib" / f"{name}.zip")
    return url


def with_cases_here(folder: Path, **changes: object) -> URL:
    """Runs of this machine that make six cases of softmax, which is enough for a prediction."""
    url = sqlite_url(folder / "study.db")
    for batch in range(1, 7):
        runs = sample_runs(
            (f"batch-{batch}",), STRATEGIES, (1, 2), 3, campaign="here", driver="native", batch=batch, **changes
        )
        file = folder / f"batch-{batch}.jsonl"
        record.write(file, [run.model_copy(update={"platform": platform_facts()}) for run in runs])
        ingest(url, [file])
    return url


def shown(app: AppTest) -> str:
    """The sentence of the advice."""
    return next(plain(element.value) for element in app.markdown if "predicted" in element.value)


def test_the_published_runs_give_a_ranking_with_its_error(real: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("advise", real, monkeypatch)
    assert not app.error
    assert not app.warning
    assert app.selectbox(key="platform").value == "all"  # this machine has no runs
    assert app.selectbox(key="workers").options == ["1", "2", "4 oversubscribed"]
    assert (app.selectbox(key="workers").value, app.selectbox(key="consistency").value) == ("2", "block")
    ranking, near = (element.value for element in app.dataframe)
    assert ranking["ratio"].is_monotonic_increasing
    assert {"lock", "spin", "striped"} <= set(ranking["strategy"])
    others = ranking[ranking["strategy"] != "lock"]
    factor = others["high"] / others["ratio"]
    assert factor.to_numpy() == pytest.approx(factor.iloc[0])
    assert (others["low"] * factor).to_numpy() == pytest.approx(others["ratio"].to_numpy())
    assert f"ratios were within a factor of {factor.iloc[0]:.3g}" in texts(app)
    assert ranking["low"].iloc[0] < 1 < ranking["high"].iloc[0]
    assert shown(app).startswith(f"**{NO_DIFFERENCE}** {ranking['strategy'].iloc[0]} has the smallest predicted time")
    assert "With 2 workers a step under" in texts(app)
    assert len(near) == 8
    assert set(near["model"]) <= {"mnist_softmax", "mnist_mlp", "mnist_deep", "sparse_logistic"}
    assert commands(app) == [
        ".venv/bin/tmflow advise --variables 784x512,512,512x10,10 --step-us 1000 --workers 2\n"
        ".venv/bin/tmflow advise training.py:build --workers 2"
    ]


def test_the_chart_has_a_row_and_an_error_range_for_each_strategy(real: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("advise", real, monkeypatch)
    (chart,) = app.get("vega_lite_chart")
    described = json.loads(chart.proto.spec)["description"]
    for row in app.dataframe[0].value.to_dict("records"):
        error = "" if row["strategy"] == "lock" else f" (error range {row['low']:.3g} to {row['high']:.3g})"
        assert f"{row['strategy']} {row['ratio']:.3g}{error}" in described


def test_a_link_with_choices_shows_them_and_a_choice_is_in_the_link(real: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(
        "advise", real, monkeypatch, shapes="100000x16:64", step_us="4", workers="4 oversubscribed",
        consistency="tensor",
    )  # fmt: skip
    assert not app.warning
    assert app.text_input(key="shapes").value == "100000x16:64"
    assert app.number_input(key="step_us").value == 4
    assert "1,024 elements updated in a step of 4 µs (one worker), with 4 workers on fewer processors" in texts(app)
    assert set(app.dataframe[0].value["strategy"]) <= {"lock", "spin", "block_stm", "adaptive", "stm", "tle", "htm"}
    assert commands(app)[0].startswith(
        ".venv/bin/tmflow advise --variables 100000x16:64 --step-us 4 --workers 4 --consistency tensor\n"
    )
    app.number_input(key="step_us").set_value(300.5).run()
    app.text_input(key="shapes").input("1000x10,10").run()
    app.selectbox(key="workers").select("1").run()
    assert not app.exception
    query = dict(app.query_params)
    assert (query["step_us"], query["shapes"], query["workers"]) == ("300.5", "1000x10,10", "1")
    again = opened("advise", real, monkeypatch, **query)
    assert "10,010 elements updated in a step of 300.5 µs (one worker), with 1 worker;" in texts(again)
    assert "With 1 worker a step" not in texts(again)  # nothing to compare with


def test_an_unusual_size_is_an_extrapolation(real: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    (warning,) = opened("advise", real, monkeypatch, shapes="10", step_us="1000000").warning
    assert "No measured case has such sizes: 10 elements that a step updates (cases:" in plain(warning.value)
    assert "1,000,000 µs of a step of one worker" in plain(warning.value)


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        ("ten", "'ten' is no shape of a variable; shapes are like 3136x1024,1024"),
        ("100x16:101", "'100x16:101' updates 101 rows of a variable that has 100."),
        ("<b>1</b>", "'<b>1</b>' is no shape"),
        ("9" * 3000, "the shapes have 3,000 characters, more than 2,000."),
    ],
)
def test_what_is_no_shape_is_one_sentence(
    shapes: str, sentence: str, real: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("advise", real, monkeypatch, shapes=shapes)
    (error,) = app.error
    assert sentence in plain(error.value)
    assert "<b>" not in error.value
    assert not app.dataframe
    assert not commands(app)
    app.text_input(key="shapes").input("10x10").run()
    assert not app.error
    assert app.dataframe


@pytest.mark.parametrize("step_us", ["-1", "0", "nan", "inf", "1e300", "ten"])
def test_what_is_no_time_is_one_sentence(step_us: str, real: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("advise", real, monkeypatch, step_us=step_us)
    (warning,) = app.warning
    assert plain(warning.value) == (
        f"The link asks for the time of a step '{step_us}', but it is a number from 0.1 to 60,000,000 µs: showing 1000."
    )
    assert app.number_input(key="step_us").value == 1000


def test_a_number_of_workers_that_a_platform_lacks_is_replaced(real: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("advise", real, monkeypatch, platform=ONE_WORKER, workers="2")
    (warning,) = app.warning
    assert plain(warning.value) == "The link asks for workers '2', which is not here: showing '1'."
    assert app.selectbox(key="workers").options == ["1"]
    wrong = opened("advise", real, monkeypatch, platform="nowhere", consistency="none")
    assert len(wrong.warning) == 2
    assert wrong.selectbox(key="platform").value == "all"


def test_another_platform_is_no_wrong_link(real: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    """The visitor did not ask for two workers of the other machine."""
    app = opened("advise", real, monkeypatch, workers="2")
    app.selectbox(key="platform").select(ONE_WORKER).run()
    assert not app.warning
    assert app.selectbox(key="workers").value == "1"


def test_this_machine_is_the_default_and_one_model_checks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("advise", with_cases_here(tmp_path), monkeypatch)
    assert app.selectbox(key="platform").value != "all"
    assert "Too few cases of other models check the predictions" in shown(app)
    assert app.dataframe[0].value[["low", "high"]].isna().all(axis=None)


def test_runs_of_a_consistency_that_is_too_weak_are_no_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `striped` there are two strategies, which make no case."""
    app = opened("advise", with_cases_here(tmp_path), monkeypatch, consistency="tensor")
    assert "No number of workers has 5 cases at consistency tensor" in plain(app.info[0].value)
    app.selectbox(key="consistency").select("element").run()
    assert not app.info
    assert set(app.dataframe[0].value["strategy"]) == set(STRATEGIES)


def test_without_cases_it_says_which_runs_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("advise", with_cases_here(tmp_path, scale="quick"), monkeypatch, step_us="50")
    (info,) = app.info
    assert "under lock and at least 2 other strategies in 3 common rounds" in plain(info.value)
    assert commands(app) == [
        "make study",
        ".venv/bin/tmflow advise --variables 784x512,512,512x10,10 --step-us 50 --workers 2\n"
        ".venv/bin/tmflow advise training.py:build --workers 2",
    ]


def test_new_runs_show_on_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = seed_database(tmp_path, rounds=3, transactions=False)
    app = opened("advise", url, monkeypatch)
    assert app.info
    with_cases_here(tmp_path)
    app.run()
    assert not app.exception
    assert not app.info
    assert app.dataframe


def test_the_page_does_not_import_scikit_learn() -> None:
    """Two threads import at the server's start, and scikit-learn and Altair import narwhals in opposite orders."""
    code = "import sys; import tmflow.portal.pages.advise; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
