"""A bundle from upload to acceptance in a real browser: uploaded, checked, accepted, and visible in the portal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import SIZES, chromium
from playwright.sync_api import Page, WebSocketRoute, expect
from seed import seed_database
from serving import serve_command
from uploading import MAINTAINER_TOKEN, UPLOAD_TOKEN

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import PLATFORM, sample_runs
from tmflow.contributions import quarantine as listed
from tmflow.contributions import quarantine as place
from tmflow.contributions import staging
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine
from tmflow.store import engine, queries
from tmflow.store.run_filter import RunFilter

pytestmark = pytest.mark.slow
PATIENCE_S = 60
ELSEWHERE = PLATFORM | {"cpu_model": "a machine from elsewhere"}


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[str]:
    """The portal as `tmflow portal` starts it with both tokens, on a study of another machine."""
    url = seed_database(tmp_path, rounds=2, transactions=False)
    own = {
        engine.VARIABLE: url.render_as_string(),
        place.VARIABLE: str(tmp_path / "quarantine"),
        Role.UPLOADER: UPLOAD_TOKEN,
        Role.MAINTAINER: MAINTAINER_TOKEN,
    }
    with serve_command(own) as portal:
        yield portal


def give(page: Page, label: str, token: str) -> None:
    page.get_by_label(label).fill(token)
    page.get_by_role("button", name="Go on").click()


def upload(page: Page, portal: str, bundle: Path) -> None:
    page.goto(f"{portal}/contribute")
    give(page, "Upload token", UPLOAD_TOKEN)
    page.locator("input[type=file]").set_input_files(bundle)
    expect(page.get_by_text(bundle.name)).to_be_visible()
    page.get_by_role("button", name="Check and hand over").click()
    expect(page.get_by_text("waits for a maintainer")).to_be_visible(timeout=60_000)


def bundles(folder: Path, *campaigns: str) -> list[Path]:
    return [
        sample_bundle(folder / campaign, sample_runs(campaign=campaign), name=f"{campaign}.zip", probe=None)
        for campaign in campaigns
    ]


def stage(folder: Path, bundle: Path) -> str:
    """The identity of a bundle that now waits in the portal's quarantine."""
    with bundle.open("rb") as source:
        staged = staging.stage(
            Quarantine(folder / "quarantine"), source, bundle.name, "192.0.2.1", engine.sqlite_url(folder / "study.db")
        )
    assert staged.outcome == "staged"
    return staged.report.identity or ""


def look_at(page: Page, portal: str, bundle: Path, identity: str) -> None:
    """Choose a waiting bundle as a maintainer does, and wait for its report."""
    page.goto(f"{portal}/quarantine")
    give(page, "The maintainer's token", MAINTAINER_TOKEN)
    page.get_by_label("Waiting").click()
    page.get_by_role("option", name=bundle.name).click()
    expect(page.get_by_text(f"identity {identity}")).to_be_visible()


def decisions(folder: Path) -> list[tuple[str, str, str]]:
    """Action, outcome and identity of each recorded decision."""
    rows = listed.audit(Quarantine(folder / "quarantine"), 1000)
    return [(row["action"], row["outcome"], row["identity"]) for row in rows if row["action"] in ("accept", "reject")]


def wait_until(page: Page, holds: Callable[[], bool]) -> None:
    """Keep the page running until a condition holds elsewhere."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)


@pytest.mark.parametrize(("decision", "outcome"), [("accept", "accepted"), ("reject", "rejected")])
def test_an_upload_between_the_look_and_the_click_changes_nothing(
    decision: str, outcome: str, portal: str, tmp_path: Path
) -> None:
    oldest, chosen, newest = bundles(tmp_path, "oldest", "chosen", "newest")
    stage(tmp_path, oldest)
    identity = stage(tmp_path, chosen)
    with chromium() as browser:
        page = browser.new_page(viewport=SIZES["desktop"])
        look_at(page, portal, chosen, identity)
        upload(browser.new_page(), portal, newest)
        if decision == "reject":
            page.get_by_label("Reason for rejecting").fill("no such machine")
        page.get_by_role("button", name=f"{decision.title()} chosen.zip, {identity[:12]}").click()
        outcome_text = "27 runs stored, 0 known" if decision == "accept" else "was rejected"
        expect(page.get_by_text(outcome_text)).to_be_visible(timeout=60_000)
    assert decisions(tmp_path) == [(decision, outcome, identity)]
    assert [upload.name for upload in listed.waiting(Quarantine(tmp_path / "quarantine"))] == [oldest.name, newest.name]


def test_a_click_before_the_other_report_is_drawn_is_refused(portal: str, tmp_path: Path) -> None:
    """The server has shown it, but its message is still in transit."""
    first, second = bundles(tmp_path, "first", "second")
    shown, other = stage(tmp_path, first), stage(tmp_path, second)
    held: list[str | bytes] = []
    holding = False
    with chromium() as browser:
        page = browser.new_page(viewport=SIZES["desktop"])

        def between(browser_side: WebSocketRoute) -> None:
            server_side = browser_side.connect_to_server()
            server_side.on_message(lambda message: held.append(message) if holding else browser_side.send(message))

        page.route_web_socket("**/_stcore/stream", between)
        look_at(page, portal, first, shown)
        holding = True
        page.get_by_label("Waiting").click()
        page.get_by_role("option", name=second.name).click()
        quarantine = Quarantine(tmp_path / "quarantine")
        wait_until(page, lambda: listed.audit(quarantine, 1)[0]["identity"] == other)  # the server has shown its report
        page.get_by_role("button", name=f"Accept {first.name}").click()
        wait_until(page, lambda: decisions(tmp_path) != [])
    assert decisions(tmp_path) == [("accept", "refused", shown)]
    assert len(listed.waiting(quarantine)) == 2


def test_a_bundle_is_uploaded_accepted_and_shown(portal: str, tmp_path: Path) -> None:
    bundle = sample_bundle(tmp_path / "made", sample_runs(platform=ELSEWHERE), probe=None)
    with chromium() as browser:
        page = browser.new_page(viewport=SIZES["phone"])
        upload(page, portal, bundle)
        expect(page.get_by_text("27 runs of a machine from elsewhere")).to_be_visible()
        page.get_by_role("link", name="Waiting bundles").click()
        give(page, "The maintainer's token", MAINTAINER_TOKEN)
        page.get_by_role("button", name="Accept").click()
        expect(page.get_by_text("27 runs stored, 0 known")).to_be_visible(timeout=60_000)
        page.goto(f"{portal}/platforms")
        expect(page.get_by_text("2 platforms.")).to_be_visible(timeout=60_000)
    reader = engine.open_reader(engine.sqlite_url(tmp_path / "study.db"))
    assert {run.uid for run in sample_runs(platform=ELSEWHERE)} <= set(
        queries.runs(reader, RunFilter(statuses=["ok"]))["uid"]
    )
