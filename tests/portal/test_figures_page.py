"""The figures of the study: a list with verdicts, and a page for each with our charts and their data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from claimed import claimed_database, platform_of
from pages import commands, links, opened, texts
from seed import CRASH
from sqlalchemy import URL

from tmflow.base.text import markdown
from tmflow.claims.originals import load_originals
from tmflow.store import engine, queries


def test_the_index_has_every_figure_with_its_verdicts(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = platform_of(claimed, "fig-4.1")
    app = opened("figures", claimed, monkeypatch, platform=platform)
    figures = load_originals().figures
    assert [label for label, _ in links(app, "figures")] == [f"**Figure {n}**: {it.title}" for n, it in figures.items()]
    text = texts(app)
    for original in load_originals().figures.values():
        assert original.finding in text
    (of_4_2,) = (m.value for m in app.markdown if figures["4.2"].finding in m.value)
    assert ":red-badge[✗ does not hold here 2] :red-badge[✗ does not hold here, emulated 2]" in of_4_2
    (query,) = (query for label, query in links(app, "figures") if label.startswith("**Figure 4.10**"))
    assert set(query.split("&")) == {"figure=4.10", f"platform={platform}"}
    drawn = [picture.proto.imgs[0].caption for picture in app.get("image")]
    assert "Our runs: figure 4.2" in drawn
    assert "Our runs: figure 4.10" not in drawn  # this platform has no run of it


def test_a_figure_has_the_charts_of_the_report_and_what_is_behind_them(
    claimed: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = platform_of(claimed, "fig-4.1")
    app = opened("figures", claimed, monkeypatch, figure="4.2", platform=platform, evidence="measured")
    original = load_originals().figures["4.2"]
    text = texts(app)
    assert original.finding in text
    assert "TSX, mnist_softmax, batch 100, pixels 784, iterations 1000" in text
    assert "as figure 4.2 of the study" in text  # as the report's titles
    (table,) = (element.value for element in app.dataframe)
    assert set(table["measure"]) == {"commits"}
    assert set(table["experiment"]) == {"fig-4.1"}  # whose runs it uses
    assert set(table["matrix"]) == {784}
    assert set(table["evidence"]) == {"measured"}
    assert len(app.get("vega_lite_chart")) == 1
    assert "tmflow study run fig-4.2" in text
    stored = queries.definition(engine.open_reader(claimed), "fig-4.1", "full", [platform])
    assert stored in [json.loads(element.value) for element in app.json]
    assert {label for label, _ in links(app, "figures")} == {"← 4.1", "All figures", "4.3 →"}
    (runs,) = (query for _, query in links(app, "runs"))
    assert {"experiment=fig-4.1", "matrix=784", f"platform={platform}"} <= set(runs.split("&"))


def test_all_evidence_is_drawn_apart_unless_one_kind_is_chosen(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("figures", claimed, monkeypatch, figure="4.2", platform=platform_of(claimed, "fig-4.1"))
    kinds = [set(element.value["evidence"]) for element in app.dataframe]
    assert sorted(kinds, key=str) == [{"emulated"}, {"measured"}]


def test_claims_that_the_runs_do_not_decide_are_folded(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("figures", claimed, monkeypatch, figure="4.2", platform=platform_of(claimed, "fig-4.1"))
    (folded,) = (one for one in app.expander if "do not decide" in one.label)
    inside = [link.proto.label for link in folded.children.values() if link.type == "page_link"]
    assert folded.label.startswith(f"{len(inside)} claim")
    assert all("untested here" in label or "cannot be tested" in label for label in inside)
    decided = [label for label, _ in links(app, "claims") if label not in inside]
    assert decided
    assert not any("untested here" in label or "cannot be tested" in label for label in decided)


def test_a_figure_without_runs_says_what_to_run(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("figures", claimed, monkeypatch, figure="4.12")
    assert "There are no runs of figure 4.12 here" in app.info[0].value
    assert commands(app) == [".venv/bin/tmflow study run fig-4.12"]
    assert not app.get("vega_lite_chart")


def test_of_failed_runs_the_reasons_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("figures", claimed_database(tmp_path, failed=True), monkeypatch, figure="4.1")
    assert not app.get("vega_lite_chart")
    assert markdown(CRASH) in "\n".join(info.value for info in app.info)


@pytest.mark.parametrize("figure", ["9.9", "", "4.1'; --", "<b>4.1</b>"])
def test_a_figure_that_the_study_does_not_have_is_told(
    figure: str, claimed: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("figures", claimed, monkeypatch, figure=figure)
    (warning,) = app.warning
    assert "which the study does not have: showing all." in warning.value
    assert "<b>" not in warning.value
    assert app.title[0].value == "Figures of the study"


def test_wrong_filters_of_a_figure_are_told(claimed: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("figures", claimed, monkeypatch, figure="4.1", platform="nowhere", scale="huge", evidence="rumour")
    assert len(app.warning) == 3
    assert len(app.get("vega_lite_chart")) >= 1
