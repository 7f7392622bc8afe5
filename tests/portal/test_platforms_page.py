"""The list of platforms and their pages: they show what was recorded, and "unknown" for everything else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pages import opened, texts
from sqlalchemy import URL

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.analysis.noise import deviations, noise
from tmflow.base.text import markdown
from tmflow.contributions.importer import import_bundle
from tmflow.platform.facts import key_of
from tmflow.runfile import record
from tmflow.store import engine, platform_queries
from tmflow.store.ingest import ingest

HERE = "synthetic-test-machine-8t"
DANGEROUS = {"cpu_model": "<b>Dangerous</b> *box* [x](y)", "cores_physical": 2, "threads_logical": 2, "isa": "aarch64"}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """Two platforms, one with a name that has a meaning in Markdown."""
    folder = tmp_path_factory.mktemp("platforms")
    url = engine.sqlite_url(folder / "study.db")
    lots = [
        sample_runs(("fig-4.1",), ("tf_lock", "htm"), unsupported=("htm",), disturbed_rounds=(2,), rounds=4),
        sample_runs(("fig-4.4",), rounds=1, disturbed_rounds=(1,), campaign="campaign-2", platform=DANGEROUS),
    ]
    for number, runs in enumerate(lots):
        record.write(folder / f"{number}.jsonl", runs)
        ingest(url, [folder / f"{number}.jsonl"])
    return url


def slug_of_dangerous(url: URL) -> str:
    table = platform_queries.platforms(engine.open_reader(url))
    return str(table.loc[table["isa"] == "aarch64", "platform"].iloc[0])


def test_the_list_has_every_platform_those_with_most_runs_first(two: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("platforms", two, monkeypatch)
    (table,) = (element.value for element in app.dataframe)
    assert table["link"].tolist() == [HERE, slug_of_dangerous(two)]
    assert table["runs"].tolist() == [24, 9]
    assert table["memory"].tolist() == ["16 GiB"] * 2


@pytest.mark.parametrize(
    ("words", "found"), [("AARCH64", 1), ("x86 TEST-machine", 1), ("", 2), ("(", 1), ("nowhere", 0)]
)
def test_the_search_is_in_the_url_and_finds_rows_with_all_its_words(
    words: str, found: int, two: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("platforms", two, monkeypatch, search=words)
    assert app.text_input(key="search").value == words
    assert sum(len(element.value) for element in app.dataframe) == found
    assert bool(app.info) == (found == 0)


def test_a_search_is_written_into_the_url(two: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("platforms", two, monkeypatch)
    app.text_input(key="search").set_value("aarch64").run()
    assert dict(app.query_params) == {"search": ["aarch64"]} or dict(app.query_params) == {"search": "aarch64"}
    assert len(app.dataframe[0].value) == 1
    app.text_input(key="search").set_value("").run()
    assert not app.query_params
    assert len(app.dataframe[0].value) == 2


def test_settings_that_differ_in_a_measured_fact_only_are_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = sample_runs(("dist",), ("lock",), rounds=2)
    measured = [
        run.model_copy(
            update={"environment": run.environment | {"network": [{"server": 0, "rtt_us": float(run.round)}]}}
        )
        for run in runs
    ]
    other = measured[0].model_copy(
        update={"uid": "another run", "environment": {**measured[0].environment, "thp": "never"}}
    )
    record.write(tmp_path / "runs.jsonl", [*measured, other.model_copy(update={"round": 3})])
    url = engine.sqlite_url(tmp_path / "study.db")
    ingest(url, [tmp_path / "runs.jsonl"])
    assert len(platform_queries.environments(engine.open_reader(url), HERE)) == 3
    app = opened("platforms", url, monkeypatch, platform=HERE)
    (settings,) = (element.value.set_index("setting") for element in app.dataframe if "setting" in element.value)
    assert settings.loc["runs that were read"].tolist() == [str(len(runs)), "1"]
    assert settings.loc["thp"].tolist()[1] == "never"


def test_a_platform_s_page_tells_what_was_recorded(two: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("platforms", two, monkeypatch, platform=HERE)
    assert not app.error
    assert not app.warning
    sources, ran, facts, settings, software = (element.value for element in app.dataframe)
    assert sources[["source", "runs"]].to_numpy().tolist() == [["ingested here", 24]]
    assert ran[["experiment", "ok", "unsupported"]].to_numpy().tolist() == [
        ["Softmax, batches of 100 (figures 4.1 to 4.6)", 12, 12]
    ]
    link = "explore?experiment=fig-4.1&scale=full&evidence=measured&platform=synthetic-test-machine-8t"
    assert ran["explore"].tolist() == [link]
    known = facts.set_index("fact")["value"]
    assert (known["L1 data cache, of one core"], known["L3 cache, one instance"]) == ("32 KiB", "unknown")
    assert known["some_new_fact"] == "kept"
    assert settings.set_index("setting").loc["microcode"].tolist() == ["unknown"]
    assert software["runs"].tolist() == [24]
    found = noise(deviations(platform_queries.newest_runs(engine.open_reader(two), HERE), 8))
    metrics = {metric.label: metric.value for metric in app.metric}
    assert metrics["Over all rounds"] == f"{100 * (found.total or 0):.2g} %"
    assert metrics["Disturbed runs"] == "25 %"
    assert "No: the processor reports no RTM" in texts(app).replace("&#58;", ":")
    assert "all 24 runs" in texts(app)
    assert {button.label for button in app.get("download_button")} == {"SVG", "PNG", "CSV", "JSON", "Vega-Lite"}


def test_one_round_shows_no_spread_and_text_of_others_is_inert(two: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("platforms", two, monkeypatch, platform=slug_of_dangerous(two))
    assert "No spread to show" in app.info[0].value
    assert {metric.label: metric.value for metric in app.metric}["Over all rounds"] == "–"
    assert markdown("<b>Dangerous</b> *box*") in app.header[0].value
    assert "<b>" not in app.header[0].value
    assert "none on Arm" in texts(app)


def test_a_bounded_reading_is_said(two: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy.db"
    shutil.copyfile(str(two.database), copy)
    monkeypatch.setattr(platform_queries.newest_runs, "__defaults__", (10,))
    app = opened("platforms", engine.sqlite_url(copy), monkeypatch, platform=HERE)
    assert "the 10 newest of 24 runs" in texts(app)


@pytest.mark.parametrize("slug", ["nowhere", "<script>", "*x*", ""])
def test_a_platform_that_is_not_there_is_one_sentence(slug: str, two: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("platforms", two, monkeypatch, platform=slug)
    (warning,) = app.warning
    assert "which is not in this database" in warning.value
    assert "<script>" not in warning.value
    assert "*x*" not in warning.value


def test_a_platform_with_only_failed_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = engine.sqlite_url(tmp_path / "failed.db")
    record.write(tmp_path / "a.jsonl", sample_runs(strategies=("htm",), unsupported=("htm",)))
    ingest(url, [tmp_path / "a.jsonl"])
    app = opened("platforms", url, monkeypatch, platform=HERE)
    assert "No spread to show" in app.info[0].value
    assert app.dataframe[1].value["unsupported"].tolist() == [9]


def test_the_newest_probe_of_a_platform_is_shown(two: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("Not probed yet" in info.value for info in opened("platforms", two, monkeypatch, platform=HERE).info)
    url = engine.sqlite_url(tmp_path / "study.db")
    identity = import_bundle(url, sample_bundle(tmp_path, sample_runs(("fig-4.1",)))).identity
    app = opened("platforms", url, monkeypatch, platform=key_of(HERE, identity))
    assert "The newest probe, 2026-02-05 00:00 UTC, measured." in texts(app)
    (found,) = (element.value for element in app.dataframe if "quantity" in element.value)
    assert "not reported" in found.set_index("quantity").loc["transactions", "found"]


def test_all_of_its_runs_are_100_per_cent(two: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("platforms", two, monkeypatch, platform=slug_of_dangerous(two))
    assert {metric.label: metric.value for metric in app.metric}["Disturbed runs"] == "100 %"
