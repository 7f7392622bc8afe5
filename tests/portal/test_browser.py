"""The portal as a visitor sees it: a real server and a real browser."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pandas as pd
import pytest
from chromium import SIZES, chromium, settled
from claimed import claimed_database, platform_of
from playwright.sync_api import Browser, Locator, Page, expect
from seed import seed_database
from serving import serve
from sqlalchemy import URL

from tmflow.analysis import summaries
from tmflow.store import engine, queries
from tmflow.store.run_filter import RESULTS

pytestmark = pytest.mark.slow

TIMES = "explore?experiment=softmax-batch-1&metric=step_time"
BOTH = "explore?experiment=transactions&metric=accuracy&evidence=measured&evidence=emulated&strategy=htm&strategy=stm"
CLAIM = "claims?claim=softmax-same-speed"
# px by which the page scrolls sideways; Streamlit scrolls inside the window.
TOO_WIDE = """Math.max(...[document.documentElement, document.querySelector('[data-testid=stMain]')]
  .map(part => part.scrollWidth - part.clientWidth))"""
VIEWS = {
    "": "tmflow",
    "figures": "Figures of the study",
    "figures?figure=4.3": "Figure 4.3",
    TIMES: "Explore",
    BOTH: "Explore",
    "compare": "Compare",
    "advise": "Advise",
    "trends": "Trends",
    "claims": "Claims",
    CLAIM: "Claims",
    "platforms": "Platforms",
    "runs": "Runs",
    "contribute": "Add your hardware",
    "method": "Method",
    "method?page=glossary": "Method",
    "method?page=protocol": "Method",
}
CHARTS = "[data-testid=stVegaLiteChart] svg"
POINTS = f"{CHARTS} [aria-roledescription=point]"
FITS = "charts => [...document.querySelectorAll(charts)].every(its => its.getBoundingClientRect().right <= innerWidth)"
# Streamlit requests its own files first below the page's path, and then at the right place.
PROBED = re.compile(r"/\w+/_stcore/(health|host-config)$")
# The minimum contrast (WCAG 2) of all readable text, in the page and in its charts.
CONTRAST = """() => {
  const parts = text => (text.match(/[0-9.]+/g) || []).map(Number)
  const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, place) => sum + v * [0.2126, 0.7152, 0.0722][place], 0)
  const over = ([r, g, b, a = 1], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)]
  const behind = element => {
    if (!element) return [255, 255, 255]
    const colour = parts(getComputedStyle(element).backgroundColor)
    return colour.length == 3 ? colour : over(colour, behind(element.parentElement))
  }
  const worst = {ratio: 99}
  for (const element of document.querySelectorAll(
      '[data-testid=stMain] :is(h1, h2, h3, h4, p, li, label, code, span), [data-testid=stVegaLiteChart] svg text')) {
    const own = [...element.childNodes].some(node => node.nodeType == 3 && /\\w/.test(node.textContent))
    const seen = element.checkVisibility({opacityProperty: true}) && !element.closest('[disabled], svg [opacity]')
    if (!own || !seen) continue
    const style = getComputedStyle(element), ground = behind(element)
    const colour = over(parts(element.closest('svg') ? style.fill : style.color), ground)
    const [low, high] = [light(colour), light(ground)].sort((a, b) => a - b)
    const ratio = (high + 0.05) / (low + 0.05)
    if (ratio < worst.ratio) Object.assign(worst, {ratio, text: element.textContent.slice(0, 60)})
  }
  return worst
}"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A database with every kind of content, including claims and figures of the study."""
    folder = tmp_path_factory.mktemp("database")
    claimed_database(folder)
    return seed_database(folder)


@pytest.fixture(scope="module")
def portal(database: URL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMFLOW_VIEWS", str(tmp_path_factory.mktemp("views") / "views.json"))
        with serve(str(database)) as address:
            yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=SIZES["desktop"])
    yield context.new_page()
    context.close()


def opened(page: Page, address: str, heading: str) -> None:
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    settled(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def pick(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option, exact=True).click()


def describe_point(mark: Locator) -> dict[str, str]:
    """The description of a point, for a screen reader or in its tooltip."""
    return dict(part.split(": ", 1) for part in (mark.get_attribute("aria-label") or "").split("; "))


def drawn(page: Page) -> list[str]:
    """All points of a page's charts."""
    expect(page.locator(POINTS).first).to_be_visible()
    return [str(point.get_attribute("aria-label")) for point in page.locator(POINTS).all()]


def downloaded(page: Page, label: str) -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name=label, exact=True).click()
    return Path(download.value.path()).read_bytes()


def test_every_page_is_drawn_without_error_at_any_size_and_in_both_themes(browser: Browser, portal: str) -> None:
    context = browser.new_context(viewport=SIZES["desktop"], color_scheme="light")
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: said.type == "error" and not PROBED.search(said.location["url"])
            and problems.append(f"{said.text} {said.location['url']}"))  # fmt: skip
    page.on("request", lambda asked: asked.url.startswith((portal, "data:", "blob:")) or problems.append(asked.url))
    for view, heading in VIEWS.items():
        opened(page, f"{portal}/{view}", heading)
        for size, viewport in SIZES.items():
            page.set_viewport_size(viewport)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                expect(page.get_by_role("heading", level=1)).to_be_visible()
                settled(page)
                page.wait_for_function(FITS, arg=CHARTS)  # a chart is drawn again when its size has changed
                where = f"{view or 'overview'}, {size}, {scheme}"
                too_wide = page.evaluate(TOO_WIDE)
                if too_wide > 0:
                    problems.append(f"{where}: scrolls sideways by {too_wide} px")
                least = page.evaluate(CONTRAST)
                if least["ratio"] < 3:
                    problems.append(f"{where}: hardly to be read: {least}")
    context.close()
    assert problems == []


def test_a_filter_changes_the_url_and_back_and_forward_follow(page: Page, portal: str) -> None:
    opened(page, f"{portal}/explore?experiment=softmax-batch-1", "Explore")
    pick(page, "Measure", "Time per step")
    page.wait_for_url(re.compile("metric=step_time"))
    expect(page.get_by_role("heading", level=3).first).to_contain_text("Time per step")
    view = query(page)
    assert {"experiment", "scale", "platform", "evidence", "metric"} <= set(view)
    pick(page, "Log scales", "linear")
    page.wait_for_url(re.compile("log=linear"))
    page.go_back()
    expect(page.get_by_role("combobox", name="Log scales")).to_have_value("automatic")
    assert query(page) == view
    page.go_forward()
    expect(page.get_by_role("combobox", name="Log scales")).to_have_value("linear")


def test_links_from_a_page_to_another_view_of_it_change_the_url_and_back_and_forward_follow(
    page: Page, portal: str, database: URL
) -> None:
    heading = page.get_by_role("heading", level=1)
    opened(page, f"{portal}/figures", "Figures of the study")
    for link, key, value, shown in (
        ("Figure 4.1: Speedup of softmax with batches of 100", "figure", "4.1", "Figure 4.1"),
        ("4.2 →", "figure", "4.2", "Figure 4.2"),
        ("All figures", "platform", None, "Figures of the study"),
    ):
        before = page.url
        page.get_by_role("link", name=link, exact=True).first.click()
        expect(heading).to_have_text(shown)
        page.wait_for_url(lambda url, before=before: url != before)
        assert value is None or query(page)[key] == [value]
        settled(page)
    page.go_back()
    expect(heading).to_have_text("Figure 4.2")
    page.go_forward()
    expect(heading).to_have_text("Figures of the study")
    opened(page, f"{portal}/claims", "Claims")
    page.get_by_role("link", name="Lock, HTM and NoLock have the same speedup").first.click()
    page.wait_for_url(re.compile("claim=softmax-same-speed"))
    expect(page.get_by_text("Cite it")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("Cite it")).to_have_count(0)
    platform = f"platforms?platform={platform_of(database, 'softmax-batch-1')}"
    opened(page, f"{portal}/{platform}", "Platforms")
    page.get_by_role("link", name="All platforms").click()
    page.wait_for_url(f"{portal}/platforms")
    page.go_back()
    page.wait_for_url(f"{portal}/{platform}")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


def test_a_shared_link_and_a_named_view_open_exactly_what_was_shown(browser: Browser, page: Page, portal: str) -> None:
    opened(page, f"{portal}/{BOTH}&log=linear", "Explore")
    shown = drawn(page)
    page.get_by_role("button", name="Share").click()
    link = page.get_by_test_id("stPopoverBody").locator("code").first.inner_text()
    assert parse_qs(urlsplit(link).query)["evidence"] == ["measured", "emulated"]
    page.get_by_label("Name for this view").fill("both kinds")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_test_id("stPopoverBody").get_by_role("link", name="Open")).to_be_visible()
    for address in (link, f"{portal}/?view={quote('both kinds')}"):
        context = browser.new_context(viewport=SIZES["desktop"])
        other = context.new_page()
        opened(other, address, "Explore")
        assert drawn(other) == shown
        chosen = other.get_by_test_id("stMultiSelect").filter(has_text="Evidence")
        for value in ("measured", "emulated"):
            expect(chosen.get_by_text(value, exact=True)).to_be_visible()
        assert query(other)["strategy"] == ["htm", "stm"]
        expect(other.get_by_role("combobox", name="Log scales")).to_have_value("linear")
        context.close()


def test_downloads_are_what_is_drawn_and_what_the_database_says(page: Page, portal: str, database: URL) -> None:
    runs = queries.runs(
        engine.open_reader(database), replace(RESULTS, experiments=["softmax-batch-1"], scales=["full"])
    )
    summary = summaries.step_time(runs).dropna(subset=["estimate"])
    expected = {(str(row.strategy), int(row.threads)): row.estimate for row in summary.itertuples()}
    assert len(expected) == 16
    opened(page, f"{portal}/{TIMES}", "Explore")
    expect(page.locator(POINTS).first).to_be_visible()
    points = [describe_point(point) for point in page.locator(POINTS).all()]
    seen = {_shown_time(point) for point in points}
    of_variants = {(str(row.variant), int(row.threads)): row.estimate for row in summary.itertuples()}
    assert dict(seen) == pytest.approx(of_variants, rel=1e-3)  # four digits are displayed

    table = pd.read_csv(io.BytesIO(downloaded(page, "CSV"))).dropna(subset=["estimate"])
    assert _estimates(table.to_dict("records")) == pytest.approx(expected, rel=1e-12)

    spec = json.loads(downloaded(page, "Vega-Lite"))
    rows = [row for data in spec["datasets"].values() for row in data if row.get("estimate") is not None]
    assert _estimates(rows) == pytest.approx(expected, rel=1e-12)
    assert spec["title"]

    svg = downloaded(page, "SVG").decode()
    labels = re.findall(r'<path aria-label="([^"]*)"[^>]*aria-roledescription="point"', svg)
    in_file = [dict(part.split(": ", 1) for part in label.split("; ")) for label in labels]
    assert {_shown_time(row_in_file) for row_in_file in in_file} == seen

    png = downloaded(page, "PNG")
    assert png.startswith(b"\x89PNG")
    wide = int(re.findall(r'<svg[^>]* width="(\d+)', svg)[0])
    assert int.from_bytes(png[16:20], "big") == pytest.approx(2 * wide, abs=2)


def _shown_time(point: dict[str, str]) -> tuple[tuple[str, int], float]:
    """The variant and the worker threads of a point, and its time, as its tooltip shows them."""
    return (point["strategy"], int(point["worker threads"])), float(point["Wall time per step (µs)"].replace("k", "e3"))


def _estimates(rows: list[Any]) -> dict[tuple[str, int], float]:
    return {(row["strategy"], int(row["threads"])): row["estimate"] for row in rows if "strategy" in row}


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("explore?experiment=nope", "experiment 'nope', which is not here"),
        ("figures?figure=9.9", "figure '9.9', which the study does not have"),
        ("claims?claim=nope", "claim 'nope', which is not here"),
        ("platforms?platform=nope", "platform 'nope', which is not in this database"),
        ("runs?run=nope", "run 'nope', which is not in this database"),
    ],
)
def test_a_wrong_value_in_the_url_is_told(page: Page, portal: str, view: str, said: str) -> None:
    page.goto(f"{portal}/{view}")
    expect(page.get_by_role("alert").first).to_contain_text(said)
    settled(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.parametrize("view", [TIMES, f"{TIMES}&facet=strategy"], ids=["one chart", "small charts"])
def test_a_click_in_the_legend_isolates_a_series_and_another_brings_back_all(
    page: Page, portal: str, view: str
) -> None:
    opened(page, f"{portal}/{view}", "Explore")
    shown = page.locator(POINTS)
    expect(shown.first).to_be_visible()
    everything = shown.count()
    name = page.locator(f"{CHARTS} .role-legend-label text").get_by_text("tf_nolock", exact=True)
    name.click()
    expect(shown).not_to_have_count(everything)
    isolated = shown.count()
    assert 0 < isolated < everything
    shown.first.click(force=True)  # for its tooltip; it does not change the choice
    expect(shown).to_have_count(isolated)
    name.click()
    expect(shown).to_have_count(everything)


def test_choosing_a_row_opens_its_run_and_back_closes_it(page: Page, portal: str) -> None:
    opened(page, f"{portal}/runs?status=ok&experiment=softmax-batch-1", "Runs")
    page.get_by_test_id("stDataFrame").first.click(position={"x": 20, "y": 50})  # the first row's box
    page.wait_for_url(re.compile("run="))
    (uid,) = query(page)["run"]
    expect(page.get_by_text(f"?run={uid}")).to_be_visible()
    expect(page.get_by_text("tmflow train --model")).to_be_visible()
    assert query(page)["status"] == ["ok"]
    page.go_back()
    expect(page.get_by_text("Repeat this run")).to_have_count(0)
    page.go_forward()
    expect(page.get_by_text(f"?run={uid}")).to_be_visible()
    page.get_by_role("button", name="All runs").click()
    page.wait_for_url(lambda url: "run=" not in url)
    expect(page.get_by_test_id("stDataFrame").first).to_be_visible()


def test_the_keyboard_alone_reaches_a_filter_and_a_download(page: Page, portal: str) -> None:
    opened(page, f"{portal}/explore?experiment=softmax-batch-1", "Explore")
    tab_to(page, page.get_by_role("combobox", name="Measure"))
    page.keyboard.type("Time per step")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("metric=step_time"))
    settled(page)
    tab_to(page, page.get_by_role("button", name="CSV", exact=True))
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename.endswith(".csv")


def tab_to(page: Page, wanted: Locator) -> None:
    for _ in range(60):
        if wanted.evaluate("element => element.contains(document.activeElement)"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("not reached by 60 presses of Tab")


def test_an_empty_portal_says_what_to_run(page: Page, tmp_path: Path) -> None:
    with serve(f"sqlite:///{tmp_path / 'none.db'}") as address:
        for view, heading in {"": "tmflow", "explore": "Explore", "claims": "Claims", "runs": "Runs"}.items():
            opened(page, f"{address}/{view}", heading)
            expect(page.get_by_text("make quick").first).to_be_visible()
    assert list(tmp_path.glob("none.db*")) == []
