"""How long a visitor of the published site waits in Chromium: the site as nginx serves it with the project's settings.

The report of `tests.speed.browser_speed` has these numbers beside those of the portal.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser

from tests.portal.nginx import nginx
from tests.portal.serving import free_port
from tests.speed.browser_visits import Received, fetch, open_file, visitor

REPEATS = 3


class SitePage(NamedTuple):
    """A page of the site as new visitors see it, and as somebody does who has seen it."""

    new: Sequence[Received]
    again: Sequence[Received]


class SiteMeasured(NamedTuple):
    """All that is measured of the site of one database."""

    publish_s: float
    n_runs: int
    n_bytes: int
    """Of all files of the site."""
    pages: Mapping[str, SitePage]
    crowd: Sequence[float]
    """Seconds until each of the concurrent visitors had the first chart."""


def measure_site(browser: Browser, database: Path, n_visitors: int) -> SiteMeasured:
    """Publish the site of a database, and visit its pages."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # nginx reads as another user
        start = time.perf_counter()
        command = [sys.executable, "-m", "tmflow", "publish", str(folder / "site")]
        environment = {**os.environ, "TMFLOW_DB_URL": f"sqlite:///{database}"}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        publish_s = time.perf_counter() - start
        with nginx(folder, free_port()) as ports:
            pages = {name: _visit(browser, ports.https, path) for name, path in _paths(folder / "site").items()}
            crowd = _arrive(browser, ports.https, pages["overview"].new[0].paths, n_visitors)
        about = json.loads((folder / "site" / "site.json").read_text())
        n_runs = json.loads((folder / "site" / "runs" / "index.json").read_text())["total"]
        return SiteMeasured(publish_s, n_runs, about["bytes"], pages, crowd)


def _paths(site: Path) -> dict[str, str]:
    """The pages, by the names of the portal's in the report; of the figures one of the study that was drawn."""
    figures = json.loads((site / "figures.json").read_text())
    figure = next(entry["path"] for entry in figures if entry["experiment"] == "fig-4.10")
    return {
        "overview": "", "figures": "figures.html", "a figure": f"{figure.rpartition('/')[0]}.html",
        "claims": "claims.html", "platforms": "platforms.html", "runs": "runs.html", "method": "method/index.html",
    }  # fmt: skip


def _visit(browser: Browser, port: int, path: str) -> SitePage:
    """Open a page of the site several times, each time as a new visitor who then opens it again."""
    new, again = [], []
    for _ in range(REPEATS):
        with visitor(browser) as context:
            new.append(open_file(context, f"https://127.0.0.1:{port}/{path}"))
            again.append(open_file(context, f"https://127.0.0.1:{port}/{path}"))
    return SitePage(new, again)


def _arrive(browser: Browser, port: int, files: Sequence[str], n_visitors: int) -> list[float]:
    """Seconds until the first chart or table of the overview, for visitors who come at the same time.

    One is in Chromium. The others are not browsers, whose work their own machines would do: they fetch the same files.
    """
    trusting = ssl._create_unverified_context()  # the certificate is the benchmark's own

    def come(_: int) -> float:
        start = time.perf_counter()
        fetch(http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=trusting), files)
        return time.perf_counter() - start

    with ThreadPoolExecutor(n_visitors - 1) as pool, visitor(browser) as context:
        others = pool.map(come, range(n_visitors - 1))
        own = open_file(context, f"https://127.0.0.1:{port}/").first_s
        return sorted([own, *others])
