"""The set-up of docs/hosting.md, on loopback: the small environment, nginx with TLS, and an update of the database."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from chromium import chromium, settled
from nginx import HOSTING, NAME, Ports, ending, nginx
from playwright.sync_api import expect
from seed import seed_database
from serving import free_port, wait_until_healthy

from tmflow.base.paths import project_root
from tmflow.store import engine, queries
from tmflow.store.schema import snapshot

pytestmark = pytest.mark.slow


class Server(NamedTuple):
    ports: Ports
    database: Path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in an empty folder, with only the portal's environment."""
    copy = tmp_path_factory.mktemp("opt") / "tmflow"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=project_root(), capture_output=True, text=True, check=True)
    for name in filter(None, files.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(project_root() / name, copy / name)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TMFLOW_", "PYTHON", "VIRTUAL"))}
    subprocess.run(["envs/bootstrap.sh", "portal"], cwd=copy, env=kept, check=True)
    return copy


@pytest.fixture(scope="module")
def server(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("srv")
    study = folder / "study"
    study.mkdir()
    published = folder / "study.db"
    snapshot(seed_database(study, rounds=2, transactions=False), published)
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text("<!doctype html><title>a published site</title>")
    portal = free_port()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMFLOW_DB_URL": f"sqlite:///{published}"}
    command = [installed / ".venv" / "bin" / "tmflow", "portal", "--port", str(portal)]
    with ending(subprocess.Popen(command, cwd="/", env=environment)) as process:
        wait_until_healthy(f"http://127.0.0.1:{portal}", process)
        with nginx(folder, portal) as ports:
            yield Server(ports, published)


@pytest.mark.deep
def test_a_visitor_reads_through_tls_and_sees_a_new_database_at_the_next_click(server: Server) -> None:
    address = f"https://{NAME}:{server.ports.https}"
    with chromium(f"--host-resolver-rules=MAP {NAME} 127.0.0.1") as browser:
        page = browser.new_context(ignore_https_errors=True).new_page()
        elsewhere: list[str] = []
        page.on("request", lambda request: elsewhere.append(request.url) if NAME not in request.url else None)
        refused: list[str] = []
        page.on("response", lambda reply: refused.append(reply.url) if reply.status >= 429 else None)
        page.goto(f"{address}/portal/runs")
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        before = queries.revision(engine.open_reader(engine.sqlite_url(server.database)))
        page.goto(f"{address}/portal/explore")
        expect(page.get_by_text(f"database revision {before}").first).to_be_visible()
        other = server.database.parent / "other"
        other.mkdir()
        snapshot(seed_database(other, rounds=3, transactions=False), server.database)
        after = queries.revision(engine.open_reader(engine.sqlite_url(server.database)))
        assert after != before
        page.reload()
        expect(page.get_by_text(f"database revision {after}").first).to_be_visible()
        assert [url for url in elsewhere if not url.startswith(("data:", "blob:"))] == []
        assert refused == [], "a limit refused what one visitor needs"


def answer(url: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers (names in lower case) and body, redirects not followed."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    trusting = ssl._create_unverified_context()  # the certificate is the test's own
    opener = urllib.request.build_opener(Stay, urllib.request.HTTPSHandler(context=trusting))
    try:
        reply = opener.open(
            urllib.request.Request(url, body, {"Host": NAME, **headers}, method="PUT" if body else "GET"), timeout=10
        )
    except urllib.error.HTTPError as error:
        reply = error
    with reply:
        return reply.status, {name.lower(): value for name, value in reply.headers.items()}, reply.read().decode()


def test_plain_http_leads_to_tls(server: Server) -> None:
    status, headers, _ = answer(f"http://127.0.0.1:{server.ports.http}/claims?claim=x")
    assert (status, headers["location"]) == (301, f"https://{NAME}/claims?claim=x")


def test_answers_have_the_headers_that_keep_browsers_strict(server: Server) -> None:
    for path in ("/", "/portal/", "/portal/_stcore/health"):
        status, headers, _ = answer(f"https://127.0.0.1:{server.ports.https}{path}")
        assert status == 200
        assert headers["strict-transport-security"] == "max-age=31536000"
        assert headers["x-content-type-options"] == "nosniff"
        assert not re.search("[0-9]", headers["server"])


def test_the_published_site_is_the_public_face(server: Server) -> None:
    status, headers, body = answer(f"https://127.0.0.1:{server.ports.https}/")
    assert (status, headers["cache-control"]) == (200, "no-cache")
    assert "a published site" in body


@pytest.mark.parametrize("address", ["/claims?claim=htm-gain&platform=x", "/portal?model=mlp", "/nowhere"])
def test_what_is_not_of_the_site_leads_to_the_portal(server: Server, address: str) -> None:
    status, headers, _ = answer(f"https://127.0.0.1:{server.ports.https}{address}")
    there = f"/portal/{address.removeprefix('/portal').removeprefix('/')}"
    assert (status, headers["location"].removeprefix(f"https://{NAME}:{server.ports.https}")) == (302, there)


def test_without_a_site_everything_leads_to_the_portal(server: Server) -> None:
    site = server.database.parent / "site"
    site.rename(site.with_name("site.away"))
    try:
        status, headers, _ = answer(f"https://127.0.0.1:{server.ports.https}/")
    finally:
        site.with_name("site.away").rename(site)
    assert (status, headers["location"].removeprefix(f"https://{NAME}:{server.ports.https}")) == (302, "/portal/")


def test_links_and_downloads_stay_below_the_portals_address(server: Server) -> None:
    address = f"https://{NAME}:{server.ports.https}"
    with chromium(f"--host-resolver-rules=MAP {NAME} 127.0.0.1") as browser:
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.goto(f"{address}/portal/")
        page.get_by_test_id("stTopNavLink").filter(has_text="Explore").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Explore")
        settled(page)
        assert urlsplit(page.url).path == "/portal/explore"
        page.get_by_role("button", name="Share").click()
        expect(page.get_by_text(f"{address}/portal/explore?").first).to_be_visible()
        page.keyboard.press("Escape")
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV").first.click()
        assert "strategy" in download.value.path().read_text().splitlines()[0]


def test_only_uploads_may_be_large_and_the_portal_refuses_them_while_they_are_off(server: Server) -> None:
    large = bytes(100 << 10)
    status, headers, _ = answer(f"https://127.0.0.1:{server.ports.https}/", large)
    assert (status, headers["server"]) == (413, "nginx")
    status, _, said = answer(f"https://127.0.0.1:{server.ports.https}/portal/_stcore/upload_file/x/y", large)
    assert (status, "XSRF" in said) == (403, True)  # of the portal, which nginx asked


def test_a_websocket_from_another_origin_is_refused(server: Server) -> None:
    asked = {
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "https://elsewhere.example",
    }  # fmt: skip
    status, _, _ = answer(f"https://127.0.0.1:{server.ports.https}/portal/_stcore/stream", **asked)
    assert status == 403


def test_an_image_takes_nothing_that_git_ignores() -> None:
    def names(file: str) -> set[str]:
        lines = (project_root() / file).read_text().splitlines()
        return {line.removeprefix("**/").strip("/") for line in lines if not line.startswith("#")}

    assert names(".gitignore") | {".git"} == names(".dockerignore")


def test_systemd_finds_nothing_wrong_with_the_service_and_little_that_it_may_do(
    installed: Path, tmp_path: Path
) -> None:
    unit = tmp_path / "tmflow-portal.service"
    text = (HOSTING / unit.name).read_text()
    assert "/opt/tmflow" in text
    unit.write_text(text.replace("/opt/tmflow", str(installed)))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    # On systemd's scale from 0 to 10, where 10 is a service without restrictions.
    judged = ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit]
    assert subprocess.run(judged, capture_output=True, text=True, check=False).returncode == 0
