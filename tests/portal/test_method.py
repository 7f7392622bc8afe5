"""The docs in the portal: found, readable and linked, without any database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import opened, plain, texts

from tmflow.reports import docs_index


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'none.db'}"


def test_the_contents_lead_to_every_page_and_term(nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = texts(opened("method", nowhere, monkeypatch))
    docs = docs_index.pages()
    for name in docs:
        assert f'href="?page={name.replace("/", "%2F")}"' in shown
    for term in docs_index.glossary(docs["concepts"]):
        assert f'href="?term={term.anchor}"' in shown


def test_a_search_finds_headings_and_terms(nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("method", nowhere, monkeypatch, search="stat")
    shown = texts(app)
    assert 'href="?page=protocol#the-statistics"' in shown
    assert 'href="?term=status"' in shown
    assert "?term=staleness" not in shown
    app.text_input(key="search").set_value("nothing <b>like</b> it").run()
    assert not app.exception
    assert "nothing <b>like</b> it" in app.query_params["search"]
    assert "No heading and no term has all of these words" in texts(app)


def test_a_term_has_a_link_of_its_own(nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = texts(opened("method", nowhere, monkeypatch, term="staleness"))
    assert "how many steps of other workers landed" in shown
    assert "lost update" not in shown


def test_a_page_of_each_group_is_shown(nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for page, *_ in docs_index.group_pages(docs_index.pages()).values():  # test_handbook.py checks all
        app = opened("method", nowhere, monkeypatch, page=page.name)
        assert not app.warning
        assert page.title in texts(app)


def test_links_and_pictures_of_a_page(nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = texts(opened("method", nowhere, monkeypatch, page="speed"))
    assert '<a href="?page=bench" target="_self">' in shown
    assert "](data:image/svg+xml;base64," in shown
    assert "`docs/speed/updates.json`" in shown


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"page": "nope"}, "The link asks for page 'nope', which is not here: showing 'contents'."),
        ({"page": "glossary", "term": "nope"}, "The link asks for term 'nope', which is not here: showing 'all'."),
    ],
)
def test_a_wrong_link_is_told(query: dict[str, str], said: str, nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said in [plain(warning.value) for warning in opened("method", nowhere, monkeypatch, **query).warning]
