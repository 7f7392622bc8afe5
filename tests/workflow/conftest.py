"""Fixtures of the tests of the complete workflow up to the portal."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from tests.conftest import ROOT

Portal = Callable[..., AppTest]


@pytest.fixture
def portal_at(monkeypatch: pytest.MonkeyPatch) -> Portal:
    """Open a page of this checkout's portal on a database that is its only source: `(url, page, **query)`."""

    def opened(url: str, page: str, **query: str) -> AppTest:
        monkeypatch.setenv("TMFLOW_DB_URL", url)
        app = AppTest.from_file(os.fspath(ROOT / "portal" / "app.py"), default_timeout=60)
        app.query_params.update(query)
        app.switch_page(f"views/{page}.py").run()
        assert not app.exception, app.exception
        return app

    return opened
