"""A published site in a browser, from a plain file server below a path, and from disk."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest
from chromium import SIZES, chromium
from playwright.sync_api import Browser, Page, expect
from published import HOSTILE, OWN_DATA, Published

from tmflow.charts.figures import slug
from tmflow.store import engine, queries
from tmflow.store.run_filter import RunFilter

pytestmark = pytest.mark.slow
POINTS = "svg [aria-roledescription=point]"
ALBUM = f"figures/{slug(OWN_DATA)}.html"
PAGES = (
    "index.html", "figures.html", ALBUM, "figures/fig-4.11.html", "claims.html", "platforms.html", "runs.html",
    "method/index.html", "method/glossary.html", "method/concepts.html", "method/speed/updates.html",
)  # fmt: skip


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Published) -> Iterator[str]:
    """The site below a path of a file server on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site.site.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/site"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Any complaint of the page fails the test, as does a request to another host."""
    context = browser.new_context(viewport=SIZES["desktop"])
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("request", lambda asked: None if asked.url.startswith((address, "data:")) else problems.append(asked.url))
    yield page
    context.close()
    assert problems == []


def shown_figures(page: Page) -> list[str]:
    return [figure.get_attribute("id") or "" for figure in page.locator("figure:visible").all()]


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_every_page_fits(page: Page, address: str, size: str, scheme: str, tmp_path: Path) -> None:
    page.set_viewport_size(SIZES[size])
    page.emulate_media(color_scheme=scheme)
    for path in PAGES:
        page.goto(f"{address}/{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        if path == ALBUM:
            expect(page.locator(POINTS).first).to_be_visible()
        if path == "runs.html":
            expect(page.locator("#runs tbody tr").first).to_be_visible()
        too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert too_wide <= 0, f"{path} scrolls sideways by {too_wide} px"
        page.screenshot(path=tmp_path / f"{slug(path)}-{size}-{scheme}.png", full_page=True)


def test_filters_are_in_the_address_and_back_and_forward_follow(page: Page, address: str) -> None:
    page.goto(f"{address}/{ALBUM}")
    everything = shown_figures(page)
    page.get_by_role("combobox", name="Measure", exact=True).select_option("accuracy")
    page.get_by_role("combobox", name="Evidence", exact=True).select_option("emulated")
    expect(page).to_have_url(re.compile(r"#measure=accuracy&evidence=emulated$"))
    (one,) = shown_figures(page)
    assert one in everything
    expect(page.get_by_role("status")).to_have_text(f"1 of {len(everything)} shown.")
    page.go_back()
    expect(page.locator("figure:visible")).to_have_count(2)  # of both kinds of evidence
    page.go_back()
    expect(page.locator("figure:visible")).to_have_count(len(everything))
    page.go_forward()
    page.go_forward()
    assert shown_figures(page) == [one]
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("figure:visible")).to_have_count(len(everything))


def test_a_link_opens_exactly_its_view_and_its_chart(page: Page, address: str, site: Published) -> None:
    page.goto(f"{address}/{ALBUM}")
    link = page.locator("figure h2 a").first.get_attribute("href")
    assert link
    page.goto("about:blank")
    page.goto(f"{address}/{ALBUM}{link}")
    expect(page.locator("figure:visible")).to_have_count(1)
    expect(page.locator(POINTS).first).to_be_visible()
    figure = page.locator("figure:visible")
    with page.expect_download() as download:
        figure.get_by_role("link", name="CSV").click()
    numbers = pd.read_csv(io.StringIO(Path(download.value.path()).read_text()))
    assert figure.locator(POINTS.removeprefix("svg ")).count() == numbers["estimate"].count()
    labels = "\n".join(point.get_attribute("aria-label") or "" for point in figure.locator(POINTS).all())
    shown = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", labels)]
    for estimate, unit in numbers[["estimate", "unit"]].dropna().itertuples(index=False):
        assert pytest.approx(100 * estimate if unit == "fraction" else estimate, rel=1e-3) in shown


def test_a_chart_is_drawn_in_a_frame_of_another_page(page: Page, address: str) -> None:
    page.goto(f"{address}/{ALBUM}")
    figure = page.locator("figure:visible").first
    figure.get_by_text("Embed this chart").click()
    snippet = figure.locator("code.embed").inner_text()
    assert f'src="{address}/embed/' in snippet
    page.route("**/elsewhere.html", lambda route: route.fulfill(body=snippet, content_type="text/html"))
    page.goto(f"{address}/elsewhere.html")
    frame = page.frame_locator("iframe")
    expect(frame.locator(POINTS).first).to_be_visible()
    expect(frame.get_by_role("link", name="The figure with its caption and numbers")).to_be_visible()


def test_a_wrong_link_is_told(page: Page, address: str) -> None:
    page.goto(f"{address}/{ALBUM}#measure=%3Cimg%20src%3Dx%3E")
    expect(page.get_by_role("status")).to_have_text(
        "The link asks for measure '<img src=x>', which is not here: showing all."
    )


def test_runs_are_searched_sorted_and_opened(page: Page, address: str, site: Published) -> None:
    runs = queries.runs(engine.open_reader(site.url), RunFilter(newest_definitions=True))
    page.goto(f"{address}/runs.html")
    said = page.get_by_role("status")
    expect(said).to_have_text(f"{len(runs)} of {len(runs)} runs.")
    page.get_by_role("combobox", name="Strategy", exact=True).select_option("tf_lock")
    page.get_by_role("searchbox", name="Search").fill("fig-4.10")
    some = runs[(runs["strategy"] == "tf_lock") & (runs["experiment"] == "fig-4.10")]
    expect(said).to_have_text(f"{len(some)} of {len(runs)} runs.")
    page.get_by_role("button", name="loop_s").click()
    expect(page.get_by_role("columnheader", name="loop_s")).to_have_attribute("aria-sort", "ascending")
    at = list(page.locator("#runs th").all_inner_texts()).index("loop_s")
    times = [float(cell) for cell in page.locator(f"#runs tbody td:nth-child({at + 1})").all_inner_texts()]
    assert times == sorted(times)
    assert times == pytest.approx(sorted(some["loop_s"]), rel=1e-4)
    page.locator("#runs tbody a").first.click()
    expect(page.locator("#run code")).to_contain_text("tmflow train --model mnist_softmax")
    view = page.url
    page.goto("about:blank")
    page.goto(view)
    expect(page.locator("#run code")).to_contain_text("--strategy tf_lock")
    expect(page.locator("#runs tbody tr")).to_have_count(len(some))
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#run")).to_be_hidden()


def test_reasons_from_the_database_are_text(page: Page, address: str) -> None:
    page.goto(f"{address}/runs.html#status=unsupported")
    page.locator("#runs tbody a").first.click()
    expect(page.locator("#run")).to_contain_text(HOSTILE)
    expect(page.locator("#run img")).to_have_count(0)


def test_terms_and_headings_are_found_by_keyboard(page: Page, address: str) -> None:
    page.goto(f"{address}/method/index.html")
    page.get_by_role("searchbox", name="Search").focus()
    page.keyboard.type("stale")
    found = page.locator("main li:visible a")
    expect(found.get_by_text("staleness", exact=True)).to_be_visible()
    found.get_by_text("staleness", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/method/glossary\.html#staleness$"))
    expect(page.locator("#staleness")).to_be_in_viewport()


def test_without_javascript_figures_are_pictures(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{ALBUM}")
    expect(page.locator("figure img").first).to_be_visible()
    expect(page.locator("form.filters")).to_be_hidden()
    context.close()


def test_from_the_disk_filters_work_and_figures_are_pictures(browser: Browser, site: Published) -> None:
    page = browser.new_page()
    page.goto((site.site / ALBUM).as_uri())
    expect(page.locator("figure img.picture").first).to_be_visible()
    page.get_by_role("combobox", name="Measure", exact=True).select_option("accuracy")
    expect(page.locator("figure:visible")).to_have_count(2)
    page.goto((site.site / "runs.html").as_uri())
    expect(page.get_by_role("status")).to_contain_text("open this page through a server")
    page.close()
