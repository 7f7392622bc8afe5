"""Invented runs appear on no page of the local runs unless the reader joins the sources; then the page says so."""

from __future__ import annotations

import re

import pytest
from pages import links, opened, texts
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tests.support.forged import CLAIM, EXPERIMENT, MACHINE, contribute, forged_runs, local_runs, store
from tmflow.store import engine

PAGES = {
    "overview": {},
    "claims": {},
    "figures": {"figure": "4.1"},
    "explore": {"experiment": EXPERIMENT, "metric": "speedup"},
}


def content(app: AppTest) -> str:
    """The text and charts of a page, without the choice of platforms, totals, and the database revision."""
    charts = [chart.proto.spec for chart in app.get("vega_lite_chart")]
    said = re.sub(r" Contributed to this platform and judged separately: \S+", "", texts(app))
    return re.sub(r"[Rr]evision [0-9a-f]{8}", "", "\n".join([said, *charts]))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> URL:
    folder = tmp_path_factory.mktemp("local")
    store(engine.sqlite_url(folder / "study.db"), folder, local_runs())
    return engine.sqlite_url(folder / "study.db")


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> tuple[URL, str]:
    """The same database with a bundle of invented runs of that machine, and its key."""
    folder = tmp_path_factory.mktemp("forged")
    url = engine.sqlite_url(folder / "study.db")
    store(url, folder, local_runs())
    return url, contribute(url, folder / "bundle", forged_runs())


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_of_a_platform_are_as_they_were(
    page: str, local: URL, forged: tuple[URL, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = forged
    before = content(opened(page, local, monkeypatch, platform=MACHINE, **PAGES[page]))
    assert content(opened(page, url, monkeypatch, platform=MACHINE, **PAGES[page])) == before
    first = opened(page, url, monkeypatch, **PAGES[page])  # without a platform: it is not the contributed one
    assert content(first) == content(opened(page, local, monkeypatch, **PAGES[page]))
    joined = opened(page, url, monkeypatch, platform=MACHINE, join="sources", **PAGES[page])
    assert content(joined) != before
    assert any("Sources are joined" in warning.value for warning in joined.warning)


def test_the_page_of_a_claim_tells_the_sources_apart(forged: tuple[URL, str], monkeypatch: pytest.MonkeyPatch) -> None:
    url, key = forged
    for how, verdict in (
        ({"platform": MACHINE}, "holds here"),
        ({"platform": key}, "does not hold here"),
        ({"platform": MACHINE, "join": "sources"}, "does not hold here"),
    ):
        app = opened("claims", url, monkeypatch, claim=CLAIM, **how)
        assert re.search(rf"badge\[\S+ {verdict}\] by \*\*measured\*\*", texts(app)), how
        for _, query in links(app, "claims"):
            assert ("join=sources" in query) == ("join" in how)


def test_a_platform_tells_who_contributed_what(forged: tuple[URL, str], monkeypatch: pytest.MonkeyPatch) -> None:
    url, key = forged
    app = opened("platforms", url, monkeypatch, platform=MACHINE)
    sources = app.dataframe[0].value
    n = (len(local_runs()), len(forged_runs()))
    assert sources["source"].tolist() == ["ingested here", "stranger.zip"]
    assert sources["runs"].tolist() == [*n]
    assert sources["identity"].iloc[1].startswith(key.rpartition("@")[2])
    assert f"all {n[0]} runs" in texts(app)
    assert ("Join the sources", f"join=sources&platform={MACHINE}") in [
        (label, "&".join(sorted(query.split("&")))) for label, query in links(app, "platforms")
    ]
    theirs = opened("platforms", url, monkeypatch, platform=key)
    assert f"all {n[1]} runs" in texts(theirs)
    assert "contributed as" in theirs.header[0].value
    listed = opened("platforms", url, monkeypatch).dataframe[0].value
    assert listed["link"].tolist() == [MACHINE, key]


def test_the_overview_says_that_this_machine_has_no_runs(local: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("overview", local, monkeypatch)
    assert any(
        "This machine has no runs here. The results below are from **synthetic test machine" in info.value
        for info in app.info
    )
    assert f"({MACHINE}): the runs that were ingested here." in texts(app)
