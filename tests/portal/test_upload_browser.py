"""A bundle's whole way in a real browser: uploaded, checked, accepted, and its machine in the portal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import SIZES, chromium
from playwright.sync_api import Page, expect
from seed import seed_database
from serving import free_port, wait_until_healthy
from uploading import MAINTAINER_TOKEN, UPLOAD_TOKEN

from tests.sample_bundles import sample_bundle
from tests.sample_runs import PLATFORM, sample_runs
from tmflow.quarantine import place
from tmflow.quarantine.tokens import Role
from tmflow.store import address, engine, queries

pytestmark = pytest.mark.slow
ELSEWHERE = PLATFORM | {"cpu_model": "a machine from elsewhere"}


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[str]:
    """As `tmflow portal` starts it with both tokens, on a study of another machine."""
    url = seed_database(tmp_path, rounds=2, transactions=False)
    port = free_port()
    own = {
        address.VARIABLE: url.render_as_string(),
        place.VARIABLE: str(tmp_path / "quarantine"),
        Role.UPLOADER: UPLOAD_TOKEN,
        Role.MAINTAINER: MAINTAINER_TOKEN,
    }
    command = [sys.executable, "-m", "tmflow", "portal", "--port", str(port)]
    with subprocess.Popen(command, env={**os.environ, **own}) as server:
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def give(page: Page, label: str, token: str) -> None:
    page.get_by_label(label).fill(token)
    page.get_by_role("button", name="Go on").click()


def test_a_bundle_is_uploaded_accepted_and_shown(portal: str, tmp_path: Path) -> None:
    bundle = sample_bundle(tmp_path / "made", sample_runs(platform=ELSEWHERE), probe=None)
    with chromium() as browser:
        page = browser.new_page(viewport=SIZES["phone"])
        page.goto(f"{portal}/contribute")
        give(page, "The token for uploads", UPLOAD_TOKEN)
        page.locator("input[type=file]").set_input_files(bundle)
        expect(page.get_by_text(bundle.name)).to_be_visible()
        page.get_by_role("button", name="Check and hand over").click()
        expect(page.get_by_text("waits for a maintainer")).to_be_visible(timeout=60_000)
        expect(page.get_by_text("27 runs of a machine from elsewhere")).to_be_visible()
        page.get_by_role("link", name="What waits").click()
        give(page, "The maintainer's token", MAINTAINER_TOKEN)
        page.get_by_role("button", name="Accept").click()
        expect(page.get_by_text("27 runs stored, 0 known")).to_be_visible(timeout=60_000)
        page.goto(f"{portal}/platforms")
        expect(page.get_by_text("2 platforms.")).to_be_visible(timeout=60_000)
    reader = engine.open_reader(engine.sqlite_url(tmp_path / "study.db"))
    assert {run.uid for run in sample_runs(platform=ELSEWHERE)} <= set(
        queries.runs(reader, all_definitions=True)["uid"]
    )
