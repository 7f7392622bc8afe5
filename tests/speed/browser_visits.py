"""Visits of the portal in Chromium, timed inside the page: a page that is opened, and a click in the menu."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page

from tests.portal.chromium import SIZES, settled

PATIENCE_MS = 120_000

# Looks at the page before every frame. `first` is when the first chart or table is there, `text` when the title and
# some text are. After a click, the old page stays until the new one comes: then the title differs, and what is left of
# the old page is stale.
WATCH = """
(() => {
  const elements = "main :is([data-testid=stVegaLiteChart], [data-testid=stDataFrame])";
  const charts = `${elements} :is(canvas, svg), main table, main img`;
  const texts = "main :is([data-testid=stMarkdown], [data-testid=stAlert]), main p";
  const watch = window.tmflowWatch = {start: 0, first: null, text: null, left: null};
  const title = () => document.querySelector("main h1")?.textContent;
  const has = selector => [...document.querySelectorAll(selector)].some(node => !node.closest("[data-stale=true]"));
  const look = () => {
    if (watch.first === null && title() && title() !== watch.left) {
      if (watch.text === null && has(texts)) watch.text = performance.now() - watch.start;
      if (has(charts)) watch.first = performance.now() - watch.start;
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  document.addEventListener("click", () => {
    Object.assign(watch, {start: performance.now(), first: null, text: null, left: title()});
  }, true);
})()
"""


class Loaded(NamedTuple):
    """What a visit asked the server for, and when its parts ended: seconds from the start of the navigation."""

    n_requests: int
    """Those that the browser's cache did not answer, and the WebSocket."""
    paths: tuple[str, ...]
    files_s: float
    """The last file that the page needs before it can connect to the server."""
    first_message_s: float
    last_message_s: float


class Opened(NamedTuple):
    """A page as a visitor saw it."""

    first_s: float
    """Until the first chart or table, or, on a page without one, until its title and text."""
    has_chart: bool
    loaded: Loaded


class Received(NamedTuple):
    """A page of plain files as a visitor saw it, and what the server sent for it."""

    first_s: float
    """Until the first chart or table, or, on a page without one, until its title and text."""
    paths: tuple[str, ...]
    """Of the files that the browser's cache did not have."""
    n_bytes: int


class Traffic:
    """Listens to the network of a page, as Chromium reports it."""

    def __init__(self, page: Page) -> None:
        self.paths: dict[str, str] = {}
        self.ended: dict[str, float] = {}
        self.n_bytes = 0
        self.messages: list[float] = []
        self.connected: list[float] = []
        self.start: float | None = None
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", self._asked)
        session.on("Network.loadingFinished", self._received)
        session.on("Network.webSocketWillSendHandshakeRequest", lambda event: self.connected.append(event["timestamp"]))
        session.on("Network.webSocketFrameReceived", lambda event: self.messages.append(event["timestamp"]))

    def _asked(self, event: dict[str, Any]) -> None:
        url = urlsplit(event["request"]["url"])
        if url.scheme in ("http", "https"):
            self.paths[event["requestId"]] = url.path
            self.start = self.start or event["timestamp"]

    def _received(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self.paths and event["encodedDataLength"] > 0:  # 0: from the browser's cache
            self.ended[event["requestId"]] = event["timestamp"]
            self.n_bytes += int(event["encodedDataLength"])

    def received(self) -> tuple[str, ...]:
        """The paths of what the server sent so far."""
        return tuple(self.paths[request] for request in self.ended)

    def loaded(self) -> Loaded:
        """All of it so far."""
        assert self.start is not None
        assert self.messages, "the page got no message"
        connected = self.connected[0]
        before = [ended for ended in self.ended.values() if ended <= connected]
        return Loaded(
            len(self.ended) + len(self.connected),
            self.received(),
            max(before, default=connected) - self.start,
            self.messages[0] - self.start,
            self.messages[-1] - self.start,
        )


@contextmanager
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """Somebody who has not been here: an empty cache."""
    context = browser.new_context(viewport=SIZES["desktop"], ignore_https_errors=True)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(WATCH)
    try:
        yield context
    finally:
        context.close()


def open_page(context: BrowserContext, address: str) -> Opened:
    """Open an address in a new tab, and close it when the page is complete."""
    page = context.new_page()
    traffic = Traffic(page)
    page.goto(address, wait_until="commit", timeout=PATIENCE_MS)
    first_s, has_chart = _first(page, settled)
    loaded = traffic.loaded()
    page.close()
    return Opened(first_s, has_chart, loaded)


def open_file(context: BrowserContext, address: str) -> Received:
    """Open a page that consists of plain files in a new tab, and close it when nothing more is loaded."""
    page = context.new_page()
    traffic = Traffic(page)
    page.goto(address, wait_until="commit", timeout=PATIENCE_MS)
    first_s, _ = _first(page, lambda page: page.wait_for_load_state("networkidle"))
    page.close()
    return Received(first_s, traffic.received(), traffic.n_bytes)


def fetch(connection: http.client.HTTPConnection, paths: Sequence[str]) -> None:
    """Download files over one connection, compressed if the server offers it."""
    for path in paths:
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        with connection.getresponse() as response:
            response.read()
            if response.status != http.HTTPStatus.OK:
                raise SystemExit(f"{path}: {response.status}")
    connection.close()


def click(page: Page, title: str) -> float:
    """Seconds from a click on a page of the menu to its first chart or table, or its text."""
    page.get_by_test_id("stTopNavLink").filter(has_text=title).click()
    page.wait_for_function("title => document.title.startsWith(title)", arg=title)
    return _first(page, settled)[0]


def _first(page: Page, complete: Callable[[Page], None]) -> tuple[float, bool]:
    """Seconds until the first chart or table of the complete page, or until its text; whether it was one of these."""
    page.wait_for_function("() => (window.tmflowWatch?.first ?? window.tmflowWatch?.text ?? null) !== null")
    complete(page)
    first, text = page.evaluate("() => [window.tmflowWatch.first, window.tmflowWatch.text]")
    return (text if first is None else first) / 1e3, first is not None
