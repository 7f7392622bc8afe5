"""Measure portal and site as visitors see them in Chromium: python -m tests.speed.browser_speed FOLDER REPORT.md

FOLDER has databases made by tests.speed.many_runs, runs-<n>.db, and one with the bundles of contrib/, published.db;
REPORT is the Markdown file to write. The server is
that of `tmflow portal`. Server and browser share the processors: for comparable numbers, taskset -c 0,1.
"""

from __future__ import annotations

import asyncio
import http.client
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import Browser

from tests.portal.chromium import chromium, settled
from tests.portal.serving import free_port, wait_until_healthy
from tests.portal.session import Session
from tests.speed.browser_visits import Opened, click, fetch, open_page, visitor
from tests.speed.relay import counted
from tests.speed.site_speed import SiteMeasured, measure_site
from tests.speed.visits import Visit, visits
from tests.support import command_line
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load
from tmflow.store.engine import open_reader, sqlite_url

REPEATS = 3
CROWD = 20
COLD = ("overview", "a figure", "explore", "claims")  # pages that a first visitor may come to; each needs a new server
LINE = 120  # characters of the report
PUBLISHED = "published.db"  # the bundles of contrib/
# The pages of the menu by the name of the visit that opens them.
MENU = {
    "figures": "Figures", "explore": "Explore", "compare": "Compare", "claims": "Claims", "platforms": "Platforms",
    "runs": "Runs", "contribute": "Add your hardware", "method": "Method", "overview": "Overview",
}  # fmt: skip


class Targets(NamedTuple):
    """In seconds, bytes and requests."""

    warm_s: float = 1.0
    cold_s: float = 2.5
    click_s: float = 0.5
    crowd_s: float = 5.0
    n_bytes: float = 1.8e6
    n_requests: int = 60


AT = {100_000: Targets(), 1_000_000: Targets(2.0, 5.0, 1.0, 10.0)}


class Running(NamedTuple):
    """A server, and the seconds from its start until it answered."""

    address: str
    start_s: float


@contextmanager
def portal(database: Path) -> Iterator[Running]:
    """`tmflow portal`, just started."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "TMFLOW_DB_URL": f"sqlite:///{database}"}
    command = [sys.executable, "-m", "tmflow", "portal", "--port", str(port)]
    start = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            wait_until_healthy(address, server)
            yield Running(address, time.perf_counter() - start)
        finally:
            server.terminate()


class Page(NamedTuple):
    """A page as the first visitor of a cold server sees it, as first visitors of a warm server do, and later."""

    cold: Opened | None
    """Of the pages of `COLD`."""
    new: Opened
    n_bytes: int
    """That the first visit received over the network."""
    again: Sequence[Opened]
    """By somebody whose browser has the front end's files, and who has seen the page."""


class Measured(NamedTuple):
    """All that is measured of one database."""

    start_s: float
    pages: Mapping[str, Page]
    clicks: Mapping[str, float]
    crowd: Sequence[float]
    """Seconds until each of the concurrent visitors of a cold server had the first chart."""


def measure(browser: Browser, database: Path) -> Measured:
    """Measure every page, every click, and a cold server with many visitors."""
    pages = visits(open_reader(sqlite_url(database)))
    starts, cold = [], {}
    for visit in (visit for visit in pages if visit.name in COLD):
        with portal(database) as server, visitor(browser) as context:
            starts.append(server.start_s)
            cold[visit.name] = open_page(context, at(server.address, visit))
    with portal(database) as server:
        with visitor(browser) as context:  # from here on the server has seen every page
            for visit in pages:
                open_page(context, at(server.address, visit))
        seen = {}
        for visit in pages:
            with visitor(browser) as context, counted(server.address) as relay:
                new = open_page(context, at(relay.address, visit))
                n_bytes = relay.n_bytes
                again = [open_page(context, at(relay.address, visit)) for _ in range(REPEATS)]
            seen[visit.name] = Page(cold.get(visit.name), new, n_bytes, again)
        clicks = menu(browser, server.address)
    files = [path for path in seen["overview"].new.loaded.paths if path.startswith("/static/")]
    with portal(database) as server:
        crowd = arrive(browser, server.address, files)
    return Measured(statistics.median(starts), seen, clicks, crowd)


def at(address: str, visit: Visit) -> str:
    """The address of a page."""
    return f"{address}/{visit.page}{'?' if visit.opens else ''}{visit.opens}"


def menu(browser: Browser, address: str) -> dict[str, float]:
    """Median seconds of a click on each page of the menu, by somebody who has seen it."""
    times: dict[str, list[float]] = {name: [] for name in MENU}
    with visitor(browser) as context:
        page = context.new_page()
        page.goto(address)
        page.locator("main h1").wait_for()
        settled(page)
        for _ in range(1 + REPEATS):
            for name, title in MENU.items():
                times[name].append(click(page, title))
    return {name: statistics.median(of_page[1:]) for name, of_page in times.items()}


def arrive(browser: Browser, address: str, files: Sequence[str]) -> list[float]:
    """Seconds until the first chart or table of the overview, for visitors who come at the same time: one in Chromium.

    The others are not browsers, whose work their own machines would do: they fetch the same files, then connect.
    """

    def come() -> float:
        start = time.perf_counter()
        fetch(http.client.HTTPConnection(urlsplit(address).netloc, timeout=120), files)
        fetched = time.perf_counter() - start
        return fetched + asyncio.run(first_chart(address))

    with ThreadPoolExecutor(CROWD - 1) as pool, visitor(browser) as context:
        others = [pool.submit(come) for _ in range(CROWD - 1)]
        own = open_page(context, address).first_s
        return sorted([own, *(other.result() for other in others)])


async def first_chart(address: str) -> float:
    """Seconds until the first chart or table of the overview is sent."""
    async with Session(address) as other:
        view = await other.view("")
    if view.failure is not None:
        raise SystemExit(f"the overview failed: {view.failure}")
    return view.first_s


def report(folder: Path) -> Iterator[str]:
    """The lines of the report, as they are measured."""
    yield from head()
    before = machine_load.sample()
    with chromium() as browser:
        version = browser.version
        for size in sorted(int(path.stem.removeprefix("runs-")) for path in folder.glob("runs-*.db")):
            yield from of_size(size, measure(browser, folder / f"runs-{size}.db"))
        yield from of_site(measure_site(browser, folder / PUBLISHED, CROWD))
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    load = f"{os.getloadavg()[2]:.0f}"
    yield f"Chromium {version}. Meanwhile {state(meanwhile)}; at the end its load average over 15 minutes was {load}."


def head() -> Iterator[str]:
    """The head of the report: what was measured, and on which machine."""
    yield "# How fast the portal is in a browser"
    yield ""
    yield from wrap(
        f"{display_name(platform_facts())}, {len(psutil.Process().cpu_affinity() or [])} processors for server and "
        f"Chromium together; {utc_now()[:10]}. Written by `python -m tests.speed.browser_speed`.",
        LINE,
    )
    yield ""
    yield from wrap(
        "Seconds from the start of a navigation, or from a click, until the first chart or table is drawn; on a page "
        "without one until its title and text are. *Again*: a warm server, and a browser that has seen the page. "
        "*First visit*: a warm server, and a browser with an empty cache; its requests and bytes are those of the "
        "whole page, as transferred, with the WebSocket's messages. *Cold*: an empty cache, and a server that answers "
        f"its first visitor. *Click*: on the page's entry in the menu. *Again* and *click* are medians of {REPEATS}, "
        "the others one visit each. Numbers in bold miss their targets.",
        LINE,
    )
    yield ""


def of_size(size: int, measured: Measured) -> Iterator[str]:
    """The tables for one database."""
    targets = AT.get(size, Targets(*[math.inf] * 4))
    yield f"## {size:,} runs"
    yield ""
    if size in AT:
        yield from wrap(
            f"Targets: {targets.warm_s:g} s again and on a first visit, {targets.cold_s:g} s cold, "
            f"{targets.click_s:g} s for a click, {targets.n_bytes / 1e6:g} MB and {targets.n_requests} requests.",
            LINE,
        )
        yield ""
    yield "| page | again | first visit | cold | click | requests | MB |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, page in measured.pages.items():
        cells = [
            marked(statistics.median(one.first_s for one in page.again), targets.warm_s),
            marked(page.new.first_s, targets.warm_s),
            marked(page.cold.first_s, targets.cold_s) if page.cold else "",
            marked(measured.clicks[name], targets.click_s) if name in measured.clicks else "",
            marked(page.new.loaded.n_requests, targets.n_requests, ".0f"),
            marked(page.n_bytes / 1e6, targets.n_bytes / 1e6),
        ]
        yield f"| {' | '.join([name, *cells])} |"
    yield ""
    yield from parts(measured.pages["overview"])
    yield from wrap(
        f"{CROWD} visitors at the same time on a cold server, one of them in Chromium, the others without a browser "
        f"but with all of its downloads: {crowd(measured.crowd, targets)}. The server answers "
        f"{measured.start_s:.1f} s after its start.",
        LINE,
    )
    yield ""


def crowd(times: Sequence[float], targets: Targets) -> str:
    """When concurrent visitors had the first chart or table of the overview."""
    late = marked(times[math.ceil(0.95 * CROWD) - 1], targets.crowd_s)
    return (
        f"half had the overview's first chart or table in {statistics.median(times):.2f} s, 95 % in {late} s "
        f"(target: {targets.crowd_s:g} s)"
    )


def of_site(site: SiteMeasured) -> Iterator[str]:
    """The table for the published site."""
    targets = Targets()
    yield "## The published site"
    yield ""
    yield from wrap(
        f"`tmflow publish` with the {site.n_runs:,} runs of contrib/, behind nginx as in `portal/hosting/nginx.conf`; "
        f"medians of {len(site.pages['overview'].new)} visits each. There is no cold server: nginx only sends files.",
        LINE,
    )
    yield ""
    yield "| page | again | first visit | requests | MB |"
    yield "|---|--:|--:|--:|--:|"
    for name, page in site.pages.items():
        cells = [
            marked(statistics.median(one.first_s for one in page.again), targets.warm_s),
            marked(statistics.median(one.first_s for one in page.new), targets.warm_s),
            marked(len(page.new[0].paths), targets.n_requests, ".0f"),
            marked(page.new[0].n_bytes / 1e6, targets.n_bytes / 1e6),
        ]
        yield f"| {' | '.join([name, *cells])} |"
    yield ""
    yield from wrap(
        f"{CROWD} visitors of the site at the same time: {crowd(site.crowd, targets)}. It was published in "
        f"{site.publish_s:.0f} s and has {site.n_bytes / 1e6:.0f} MB.",
        LINE,
    )
    yield ""


def parts(overview: Page) -> Iterator[str]:
    """A table of when the parts of a visit of the overview ended."""
    yield "When the parts of a visit of the overview ended, in seconds from its start:"
    yield ""
    yield "| part | again | first visit | cold |"
    yield "|---|--:|--:|--:|"
    assert overview.cold
    kinds = (overview.again, [overview.new], [overview.cold])
    rows = {
        "the front end's files are there": [statistics.median(one.loaded.files_s for one in kind) for kind in kinds],
        "first message of the server": [
            statistics.median(one.loaded.first_message_s for one in kind) for kind in kinds
        ],
        "first chart or table drawn": [statistics.median(one.first_s for one in kind) for kind in kinds],
        "last message of the server": [statistics.median(one.loaded.last_message_s for one in kind) for kind in kinds],
    }
    for part, times in rows.items():
        yield f"| {part} | {' | '.join(f'{seconds:.2f}' for seconds in times)} |"
    yield ""


def marked(number: float, target: float, form: str = ".2f") -> str:
    """A number, in bold if it misses its target."""
    return f"**{number:{form}}**" if number > target else f"{number:{form}}"


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("folder", type=command_line.folder, help="with databases runs-<n>.db")
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    asked = parser.parse_args()
    lines = []
    for line in report(asked.folder):
        print(line, flush=True)
        lines.append(line)
    write_text(asked.report, "\n".join(lines).rstrip() + "\n")
