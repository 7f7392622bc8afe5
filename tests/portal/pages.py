"""A page of the portal without a browser."""

from __future__ import annotations

import html
from collections.abc import Iterator

import pytest
from serving import APP
from sqlalchemy import URL
from streamlit.testing.v1 import AppTest

from tmflow.base.text import JOINER
from tmflow.portal.links import LANGUAGE


def opened(page: str, url: URL | str, monkeypatch: pytest.MonkeyPatch, /, **query: str | list[str]) -> AppTest:
    monkeypatch.setenv("TMFLOW_DB_URL", str(url))
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.query_params.update(query)
    app.switch_page(f"views/{page}.py").run()
    assert not app.exception, app.exception
    return app


def texts(app: AppTest) -> str:
    kinds = ("title", "header", "subheader", "markdown", "caption", "info", "warning", "error", "code")
    return "\n".join(plain(element.value) for kind in kinds for element in app.get(kind))


def commands(app: AppTest) -> list[str]:
    """The commands that the page shows."""
    return [code.value for code in app.code if code.language == LANGUAGE]


def plain(text: object) -> str:
    """The text that a reader sees of text escaped for Markdown."""
    return html.unescape(str(text)).replace(JOINER, "")


def links(app: AppTest, page: str) -> Iterator[tuple[str, str]]:
    """The label and the query of each link to a page."""
    for link in app.get("page_link"):
        if link.proto.page == page:
            yield link.proto.label, link.proto.query_string
