"""The portal as a visitor sees it: a real server and a real browser. Screenshots go to the test's folder."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from seed import seed_database
from serving import serve
from sqlalchemy import URL

from tmflow.store import engine, queries

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
SIZES = {"desktop": {"width": 1440, "height": 1000}, "phone": {"width": 390, "height": 844}}
PAGES = {"": "tmflow", "speedup": "Speedup", "accuracy": "Accuracy", "transactions": "Transactions", "runs": "Runs"}
POINTS = "[data-testid=stVegaLiteChart] svg [aria-roledescription=point]"

pytestmark = [
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def portal(seeded: URL) -> Iterator[str]:
    with serve(str(seeded)) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "no Chromium on this machine: `make setup-test` installs Debian's"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=SIZES["desktop"])
    yield context.new_page()
    context.close()


def settled(page: Page) -> None:
    """Wait until the page's script has run to its end."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()


def opened(page: Page, address: str, heading: str) -> None:
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_have_text(heading, timeout=30_000)  # a new server imports first
    settled(page)
    expect(page.locator("[data-testid=stException]")).to_have_count(0)


def query(page: Page) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def shown(page: Page, label: str) -> str:
    return page.get_by_role("combobox", name=label).input_value()


def pick(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option, exact=True).click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_every_page_is_drawn_without_error(
    browser: Browser, portal: str, size: str, scheme: str, tmp_path: Path
) -> None:
    context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    for path, heading in PAGES.items():
        opened(page, f"{portal}/{path}", heading)
        if path in {"speedup", "accuracy"}:
            expect(page.locator(POINTS).first).to_be_visible()
            chart = page.locator("[data-testid=stVegaLiteChart] svg").first.bounding_box()
            assert chart is not None
            assert chart["x"] + chart["width"] <= SIZES[size]["width"]
        else:
            expect(page.locator("[data-testid=stDataFrame]").first).to_be_visible()
        too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert too_wide <= 0, f"{path} scrolls sideways by {too_wide} px"
        page.screenshot(path=tmp_path / f"{path or 'overview'}-{size}-{scheme}.png", full_page=True)
    context.close()
    assert problems == []


def test_ways_to_run_are_chosen_and_a_full_run_shows_what_it_lost(page: Page, tmp_path: Path) -> None:
    url = seed_database(tmp_path, rounds=2, strategies=("tf_lock",), transactions=False, beyond=True)
    runs = queries.runs(engine.open_reader(url), experiment="beyond")
    full = runs[(runs["measures"] == "full") & (runs["threads"] == 2) & (runs["evidence"] == "measured")]
    with serve(str(url)) as address:
        opened(page, f"{address}/speedup?experiment=beyond&metric=step_time", "Speedup")
        expect(page.get_by_text("no time here compares with that of usual runs").first).to_be_visible()
        for label, option in {"Driver": "native", "Reading": "consistent", "Measures": "usual"}.items():
            pick(page, label, option)
            settled(page)
        panels = page.get_by_text("native driver, reading consistent.")
        expect(panels).to_have_count(1)  # those measured in full have gone
        expect(page).to_have_url(re.compile("reading=consistent"))
        opened(page, f"{address}/runs?run={full['uid'].iloc[0]}", "Runs")
        expect(page.get_by_text("Updates lost")).to_be_visible()
        expect(page.get_by_text("2.50%")).to_be_visible()
        page.screenshot(path=tmp_path / "full.png", full_page=True)


def test_a_link_opens_exactly_its_view(page: Page, portal: str) -> None:
    opened(page, f"{portal}/speedup?experiment=softmax-batch-1&metric=step_time", "Speedup")
    assert shown(page, "Experiment") == "softmax-batch-1"
    assert shown(page, "Metric") == "time per step"
    expect(page.get_by_role("heading", level=3).first).to_contain_text("Time per step, softmax-batch-1")


def test_a_filter_changes_the_url_and_back_and_forward_follow(page: Page, portal: str) -> None:
    opened(page, f"{portal}/speedup", "Speedup")
    pick(page, "Metric", "time per step")
    page.wait_for_url(re.compile("metric=step_time"))
    expect(page.get_by_role("heading", level=3).first).to_contain_text("Time per step")
    view = query(page)
    assert {"experiment", "scale", "platform", "evidence", "dataset", "metric", "baseline"} <= set(view)
    pick(page, "Baseline", "tf_lock, one worker")
    page.wait_for_url(re.compile("baseline=tf_lock"))
    page.go_back()
    expect(page.get_by_role("combobox", name="Baseline")).to_have_value("itself, one worker")
    assert query(page) == view
    page.go_forward()
    expect(page.get_by_role("combobox", name="Baseline")).to_have_value("tf_lock, one worker")


def test_a_wrong_value_in_the_url_is_told(page: Page, portal: str) -> None:
    opened(page, f"{portal}/speedup?experiment=nope", "Speedup")
    expect(page.get_by_role("alert")).to_contain_text("experiment 'nope', which is not here")
    expect(page.locator(POINTS).first).to_be_visible()


def test_a_link_opens_one_run(page: Page, portal: str, seeded: URL) -> None:
    uid = queries.runs(engine.open_reader(seeded))["uid"].iloc[0]
    opened(page, f"{portal}/runs?run={uid}", "Runs")
    expect(page.get_by_text("tmflow train --model")).to_be_visible()


def test_choosing_a_row_opens_its_run_and_back_closes_it(page: Page, portal: str) -> None:
    opened(page, f"{portal}/runs?status=ok", "Runs")
    page.locator("[data-testid=stDataFrame]").first.click(position={"x": 20, "y": 50})  # the first row's box
    page.wait_for_url(re.compile("run="))
    expect(page.get_by_text(f"uid {query(page)['run']}")).to_be_visible()
    assert query(page)["status"] == "ok"
    page.go_back()
    expect(page.get_by_text("Repeat it")).to_have_count(0)


def test_downloads_are_what_is_drawn(page: Page, portal: str) -> None:
    opened(page, f"{portal}/speedup", "Speedup")
    drawn = page.locator(POINTS)
    expect(drawn.first).to_be_visible()
    for label, extension in (("CSV", "csv"), ("SVG", "svg")):
        with page.expect_download() as download:
            page.get_by_role("button", name=label, exact=True).click()
        assert download.value.suggested_filename.endswith(f".{extension}")
        text = Path(download.value.path()).read_text()
        if extension == "csv":
            assert pd.read_csv(io.StringIO(text))["estimate"].count() == drawn.count()
        else:
            assert text.count('aria-roledescription="point"') == drawn.count()


@pytest.mark.parametrize(
    ("evidence", "lines"), [("emulated", ["htm"]), ("measured", ["stm", "stm (design wt, manager backoff, ", "tle"])]
)
def test_transactions_are_drawn_by_evidence(
    page: Page, portal: str, tmp_path: Path, evidence: str, lines: list[str]
) -> None:
    opened(page, f"{portal}/transactions?experiment=transactions&evidence={evidence}", "Transactions")
    expect(page.locator(POINTS).first).to_be_visible()
    page.screenshot(path=tmp_path / f"transactions-{evidence}.png", full_page=True)
    legend = page.locator("[data-testid=stVegaLiteChart] svg").first.locator(".role-legend-label")
    for line in lines:
        expect(legend.filter(has_text=line).first).to_be_visible()
    told = page.get_by_text("intel-tsx-study emulated in software")
    expect(told).to_have_count(1 if evidence == "emulated" else 0)


def test_a_parameter_s_filter_comes_and_goes(page: Page, portal: str, tmp_path: Path) -> None:
    opened(page, f"{portal}/speedup?experiment=transactions&evidence=measured", "Speedup")
    page.screenshot(path=tmp_path / "speedup-measured.png", full_page=True)
    pick(page, "Design", "wt")
    page.wait_for_url(re.compile("design=wt"))
    settled(page)
    expect(page.get_by_role("combobox", name="Manager")).to_have_count(0)
    pick(page, "Experiment", "softmax-batch-1")
    page.wait_for_url(re.compile("experiment=softmax-batch-1"))
    expect(page.get_by_role("combobox", name="Design")).to_have_count(0)
    assert "design" not in query(page)
    page.go_back()
    expect(page.get_by_role("combobox", name="Design")).to_have_value("wt")


def test_an_empty_portal_says_what_to_run(page: Page, tmp_path: Path) -> None:
    with serve(f"sqlite:///{tmp_path / 'none.db'}") as address:
        opened(page, address, "tmflow")
        expect(page.get_by_text("make quick").first).to_be_visible()
    assert list(tmp_path.glob("none.db*")) == []
