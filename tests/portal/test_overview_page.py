"""The overview: three answers, the number of claims that hold, and the available data, for every kind of database."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from pages import links, opened, texts
from seed import seed_database
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.sample_bundles import consistent, sample_bundle
from tests.support.sample_runs import FULL, sample_runs
from tmflow.claims.schema import load_claims
from tmflow.contributions.importer import import_bundle
from tmflow.native.registry import consistency_by_strategy
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.portal.study_data import experiment_titles
from tmflow.reports import findings
from tmflow.reports.answers import ask
from tmflow.reports.comparisons import OF_ACCURACY, OF_ALL, OF_ALL_SMALL, OF_LOSSES, OF_STUDY
from tmflow.runfile import record
from tmflow.spec.strategies import parameters_of
from tmflow.store import engine, platform_queries, queries
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest

MACHINES: dict[str, dict[str, Any]] = {
    "large": {"cpu_model": "Large CPU", "threads_logical": 4},
    "small": {"cpu_model": "Small *CPU* <b>", "threads_logical": 2},
}
HTM = {"strategy": "htm", **parameters_of("htm"), "provider": "rtm"}


def seed_study(folder: Path, rounds: Mapping[str, int]) -> URL:
    """The experiments of the answers, on machines with this many rounds each."""
    url = sqlite_url(folder / "study.db")
    deep = {"model": "mnist_deep", "dropout_keep": 0.5}
    seeds: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
        (OF_STUDY.experiment, ("tf_lock", "tf_nolock", HTM, "stm"), {**deep, "batch": 1}),
        (OF_ALL.experiment, ("lock", "nolock", "striped", "tf_lock"), {**deep, "batch": 1}),
        (OF_ACCURACY.experiment, ("tf_lock", "tf_nolock", HTM), {}),
        (OF_LOSSES.experiment, ("lock", "nolock", "striped"), FULL),
    )
    files = []
    for machine, n in rounds.items():
        for experiment, names, factors in seeds:
            strategies = [{"strategy": it, **parameters_of(it)} if isinstance(it, str) else it for it in names]
            settings = {"dataset": "mnist", "curve_points": 0, "campaign": machine, "platform": MACHINES[machine]}
            runs = sample_runs((experiment,), strategies, (1, 2, 4, 8), n, **{**settings, **factors})
            files.append(folder / f"{machine}-{experiment}.jsonl")
            record.write(files[-1], runs)
    ingest(url, files)
    return url


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> URL:
    return seed_study(tmp_path_factory.mktemp("study"), {"large": 6, "small": 2})


def words(app: AppTest) -> str:
    return unescape(texts(app))


def test_the_answers_are_those_of_the_platform_with_the_most_runs(study: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", study, monkeypatch)
    said = words(app)
    reader = engine.open_reader(study)
    platform = app.selectbox(key="platform").value
    expected = ask(reader, platform, "", consistency_by_strategy(), experiment_titles())
    for answer in expected:
        assert f"#### {answer.question}\n**{answer.short}**" in said
        assert all(sentence in said for sentence in answer.sentences)
        assert "Large CPU" in answer.rests_on
        assert answer.rests_on in said
        assert answer.figure is not None
    tables = [element.value for element in app.dataframe][1 : 1 + len(expected)]
    for table, answer in zip(tables, expected, strict=True):
        assert answer.figure is not None
        assert table["estimate"].tolist() == answer.figure.summary["estimate"].tolist()
        assert set(table["threads"]) == {4}  # 8 are more than the machine has


def test_it_begins_with_what_the_runs_say_and_the_platforms_side_by_side(
    study: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("overview", study, monkeypatch)
    platforms = app.selectbox(key="platform").options
    said = words(app)
    keys = findings.measured_platforms(queries.counts(engine.open_reader(study)))
    assert len(keys) == len(platforms) == 2
    reader = engine.open_reader(study)
    found = [findings.find(reader, *item, "mnist_deep", consistency_by_strategy()) for item in keys.items()]
    assert None not in found
    assert findings.sentence(found[0]) in said
    expected = findings.matrix(found, platform_queries.platforms(reader))
    matrix = app.dataframe[0].value
    assert list(matrix["platform"]) == list(expected["platform_name"])
    for column in (*findings.COLUMNS.values(), findings.LOST):
        assert list(matrix[column]) == list(expected[column])
    assert matrix.iloc[0]["workers"] == "4"
    softmax = opened("overview", study, monkeypatch, model="mnist_softmax")
    assert "No platform has compared strategies with two or more workers for mnist_softmax" in words(softmax)


def test_the_platform_is_in_the_url(study: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", study, monkeypatch)
    small = next(slug for slug in app.selectbox(key="platform").options if slug.startswith("Small"))
    app.selectbox(key="platform").select_index(1).run()
    again = opened("overview", study, monkeypatch, platform=app.query_params["platform"])
    assert "No benefit shown." in words(again)  # two rounds separate nothing
    assert small in words(again)
    assert "Small *CPU*" not in texts(again).replace(small, "")  # the name of a platform is escaped


def test_a_wrong_platform_is_told(study: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", study, monkeypatch, platform="nowhere")
    assert "asks for platform 'nowhere', which is not here" in unescape(app.warning[0].value)


def test_links_lead_to_the_runs_and_to_the_claims(study: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    links = [link.proto for link in opened("overview", study, monkeypatch).get("page_link")]
    of_page = {page: [link.query_string for link in links if link.page == page] for page in ("explore", "claims")}
    assert any("experiment=fig-4.10" in query and "batch=1" in query for query in of_page["explore"])
    assert "claim=stm-never-pays&platform=large-4t" in of_page["claims"]


def test_a_platform_answers_with_its_own_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = seed_study(tmp_path, {"large": 6})
    settings = {"dataset": "mnist", "campaign": "later", "platform": MACHINES["large"], "day": 3, "batch": 7}
    record.write(tmp_path / "later.jsonl", sample_runs((OF_STUDY.experiment,), ("tf_lock",), (1,), 1, **settings))
    ingest(url, [tmp_path / "later.jsonl"])
    app = opened("overview", url, monkeypatch)
    assert "6 rounds on Large CPU" in words(app)
    links = [link.proto for link in app.get("page_link") if "experiment=fig-4.10" in link.proto.query_string]
    assert [link.page for link in links] == ["runs"]  # Explore shows the definition that was run last


def test_the_scoreboard_counts_every_claim(study: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    (board,) = re.findall(r"\*\*Measured\*\* (.*)", texts(opened("overview", study, monkeypatch)))
    counted = re.findall(r"badge\[\S+ [\w ]+? (\d+)\]", board)
    assert sum(map(int, counted)) == sum(claim.restates is None for claim in load_claims().claims.values())
    assert "Emulated" not in board


def test_what_data_is_here(seeded: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", seeded, monkeypatch)
    assert {metric.label: metric.value for metric in app.metric} == {
        "Platforms": "1", "Experiments": "3", "Runs": "348", "Without result": "50",
    }  # fmt: skip
    (short,) = (element.value for element in app.dataframe)
    assert short[["ok", "failed", "unsupported"]].sum().tolist() == [298, 2, 48]
    next(toggle for toggle in app.toggle if toggle.label == "By experiment").set_value(True).run()
    _, long = (element.value for element in app.dataframe)
    assert long[["ok", "failed", "unsupported"]].sum().tolist() == [298, 2, 48]
    assert short["evidence"].tolist() == ["emulated", "measured"]
    said = words(app)
    assert said.count("Nothing measured yet.") == 3
    assert "there is no measured run of fig-4.10" in said
    assert "'make study' measures it" in said


def test_quick_scale_is_called_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", seed_database(tmp_path, "quick", 2), monkeypatch)
    assert "Quick scale" in app.warning[0].value
    seed_database(tmp_path, "full", 1)
    assert "kept separate" in app.run().info[0].value


def test_runs_of_quick_scale_are_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `make quick`: full-scale runs of another machine, and runs of quick scale of this one."""
    url = seed_database(tmp_path, rounds=1, transactions=False)
    runs = sample_runs(("softmax-batch-1",), ("lock", "htm"), (1, 2), 2, scale="quick", campaign="quick")
    here = [run.model_copy(update={"platform": platform_facts()}) for run in runs]
    record.write(tmp_path / "here.jsonl", here)
    ingest(url, [tmp_path / "here.jsonl"])
    app = opened("overview", url, monkeypatch)
    (info,) = (info.value for info in app.info if "This machine" in info.value)
    assert info.startswith(
        "This machine has no measured runs at full scale yet, only 8 measured runs at quick scale, which the page Runs "
        "lists; `make study` measures at full scale. The results below are from **Example CPU at 3 GHz"
    )
    key = platform_queries.local_platform(engine.open_reader(url), platform_sha256(platform_facts()))
    assert ("Runs of this machine", f"platform={key}") in links(app, "runs")
    assert opened("runs", url, monkeypatch, platform=str(key)).dataframe[0].value["scale"].tolist() == ["quick"] * 8
    quick = opened("overview", url, monkeypatch, platform=str(key))
    assert not quick.warning
    assert quick.selectbox(key="platform").value == key
    assert any("only runs of quick scale" in info.value for info in quick.info)


def test_of_several_contributions_of_this_machine_one_with_a_finding_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = sqlite_url(tmp_path / "study.db")
    for name, experiment, rounds in (("first", "softmax-batch-1", 9), ("second", OF_ALL_SMALL.experiment, 3)):
        runs = map(consistent, sample_runs((experiment,), ("lock", "striped"), (1, 2), rounds, campaign=name))
        here = [run.model_copy(update={"platform": platform_facts()}) for run in runs]
        import_bundle(url, sample_bundle(tmp_path / name, here))
    app = opened("overview", url, monkeypatch)
    reader = engine.open_reader(url)
    of_platform = queries.counts(reader).groupby("experiment")["platform"].first()
    assert app.selectbox(key="platform").value == of_platform[OF_ALL_SMALL.experiment]
    assert not any("This machine" in info.value for info in app.info)
    claims = opened("claims", url, monkeypatch)
    assert claims.selectbox(key="platform").value == of_platform[OF_ALL_SMALL.experiment]


def test_only_failed_runs_are_called_so(without_result: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", without_result, monkeypatch)
    assert "No run here has a result" in app.warning[0].value
    assert len(app.metric) == 4


def test_new_runs_show_on_reload(seeded: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(str(seeded.database), tmp_path / "study.db")
    app = opened("overview", sqlite_url(tmp_path / "study.db"), monkeypatch)
    assert app.metric[2].value == "348"
    seed_database(tmp_path, "quick", 1, transactions=False)
    assert app.run().metric[2].value == "388"
