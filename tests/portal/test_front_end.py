"""The front end's files arrive compressed, and the server answers before the pages have been opened in advance."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from chromium import chromium
from serving import APP, free_port, serve, wait_until_healthy
from session import Session
from sqlalchemy import URL

from tests.speed.browser_visits import Opened, open_page, visitor
from tests.speed.relay import counted
from tmflow.portal import front_end
from tmflow.store import engine

GZIP = {"Accept-Encoding": "gzip, deflate, br"}
PAGES = [
    "",
    *(view.stem for view in (APP.parent / "views").glob("*.py") if view.stem not in ("overview", "quarantine")),
]


@pytest.fixture(scope="module")
def address(seeded: URL) -> Iterator[str]:
    with serve(str(seeded)) as address:
        yield address


@pytest.fixture(scope="module")
def opened(address: str) -> Opened:
    """The overview, opened in a browser with an empty cache."""
    with chromium() as browser, visitor(browser) as context:
        return open_page(context, address)


def get(address: str, path: str, **headers: str) -> tuple[dict[str, str], bytes]:
    """Headers (names in lower case) and body of an answer."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    connection.request("GET", path, headers=headers)
    with connection.getresponse() as response:
        assert response.status == http.HTTPStatus.OK
        return {name.lower(): value for name, value in response.getheaders()}, response.read()


def test_files_are_compressed_and_kept_by_browsers(address: str, opened: Opened) -> None:
    files = [path for path in opened.loaded.paths if path.startswith("/static/")]
    assert {path.rpartition(".")[2] for path in files} >= {"js", "css", "woff2"}
    for path in files:
        headers, body = get(address, path, **GZIP)
        assert "immutable" in headers["cache-control"]
        plain = (front_end.ROOT / path.removeprefix("/")).read_bytes()
        if path.endswith(".woff2"):
            assert body == plain
        else:
            assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
            assert gzip.decompress(body) == plain
            others, uncompressed = get(address, path)
            assert "content-encoding" not in others
            assert uncompressed == plain
            assert others["content-type"] == headers["content-type"]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_compressed_and_asked_for_each_time(address: str, page: str) -> None:
    headers, body = get(address, f"/{page}", **GZIP)
    assert (headers["content-encoding"], headers["cache-control"]) == ("gzip", "no-cache")
    assert gzip.decompress(body) == get(address, f"/{page}")[1]


def test_a_first_visit_transfers_a_third_of_what_streamlit_would(address: str) -> None:
    with chromium() as browser, visitor(browser) as context, counted(address) as relay:
        opened = open_page(context, relay.address)
    files = [front_end.ROOT / path.removeprefix("/") for path in opened.loaded.paths if path.startswith("/static/")]
    assert opened.has_chart
    assert relay.n_bytes < sum(file.stat().st_size for file in files) * 0.37


def test_pages_arrive_through_the_websocket(address: str) -> None:
    async def view() -> int:
        async with Session(address) as visit:
            return (await visit.view("explore")).n_charts

    assert asyncio.run(view()) > 0


def test_the_server_answers_while_the_pages_are_being_opened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as database:  # accepts connections, and never answers
        database.settimeout(60)
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        url = f"postgresql://study@127.0.0.1:{database.getsockname()[1]}/study"
        command = [sys.executable, "-m", "tmflow", "portal", "--port", str(port)]
        with subprocess.Popen(command, env={**os.environ, engine.VARIABLE: url}) as server:
            try:
                waiting, _ = database.accept()  # no visitor has come: the server itself opens a page
                with waiting:
                    wait_until_healthy(address, server)
                    headers, _ = get(address, "/", **GZIP)
                    assert headers["content-type"].startswith("text/html")
            finally:
                database.close()
                server.terminate()
