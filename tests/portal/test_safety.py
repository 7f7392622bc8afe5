"""Untrusted text in a bundle of runs or in a link is displayed as text: it runs, links and moves nothing."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chromium import chromium
from playwright.sync_api import Page, expect
from serving import serve
from sqlalchemy import URL, text

from tests.support.sample_runs import SOFTWARE_TM, sample_runs
from tmflow.base.paths import project_root
from tmflow.base.text import JOINER
from tmflow.charts.figures import DRAWINGS, figures_of
from tmflow.runfile import record
from tmflow.store import engine, queries
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RESULTS

ALERT = "datum.x'+alert(1)+\"</script><img src=x onerror=alert(2)>"
SIGNAL = '{"signal": "alert(3)"}'
MARKDOWN = (
    "**b** _i_ `c` $x^2$ :red[r] :material/home: :smile: :streamlit: [l](http://evil.example) "
    "![p](http://evil.example/p) www.evil.example me@evil.example -> --"
)
FORMULA = '=HYPERLINK("http://evil.example","x")'
EXPERIMENT, REASON = f"{FORMULA} {ALERT} {SIGNAL}", f"{FORMULA} {ALERT} {MARKDOWN}"
ITM = {"strategy": "itm", "method": "ml_wt", "optimisation": "O3"}
# Properties that Vega parses as expressions, or that give the text of a mark.
EXPRESSIONS = {"expr", "signal", "labelExpr", "test", "calculate", "filter", "update", "href", "url"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A database in which every free text is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    url = sqlite_url(folder / "study.db")
    variants = ("tf_lock", *(ITM | {"library": library} for library in (ALERT, SIGNAL, MARKDOWN)), SOFTWARE_TM)
    runs = sample_runs((EXPERIMENT,), variants, (1, 2, 16), 2, platform={"cpu_model": MARKDOWN + ALERT})
    ended = {"status": "failed", "reason": REASON}
    fields = {"uid", "campaign", "experiment", "round", "ordinal", "order_seed", "trial_seed", "resumed",
              "started_at_utc", "spec", "dataset_sha256", "evidence", "time_domain", "platform", "environment",
              "software"}  # fmt: skip
    runs[0] = record.Run.model_validate({**runs[0].model_dump(include=fields), **ended})
    record.write(folder / "runs.jsonl", runs)
    ingest(url, [folder / "runs.jsonl"])
    return url


def specs(hostile: URL) -> Iterator[tuple[str, dict[str, Any]]]:
    records = queries.records(engine.open_reader(hostile), replace(RESULTS, experiments=[EXPERIMENT]))
    for kind, drawing in DRAWINGS.items():
        for _, figure in figures_of(kind, drawing.summarise(records), "1"):
            yield kind, figure.spec()


def formulas(spec: Any) -> Iterator[str]:
    """All expressions in a chart that Vega would evaluate."""
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key in EXPRESSIONS:
                yield json.dumps(value)
            elif key != "datasets":
                yield from formulas(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from formulas(value)


def test_no_chart_computes_what_the_data_says(hostile: URL) -> None:
    seen = dict(specs(hostile))
    assert {"speedup", "step_time", "accuracy", "curve", "staleness", "causes", "commits"} <= set(seen)
    for kind, spec in seen.items():
        assert "alert(" in json.dumps(spec), kind  # it is displayed as text
        for formula in formulas(spec):
            assert "alert" not in formula, kind


def test_no_file_of_a_figure_has_a_formula_of_a_spreadsheet(hostile: URL) -> None:
    records = queries.records(engine.open_reader(hostile), replace(RESULTS, experiments=[EXPERIMENT]))
    ((_, figure),) = figures_of("step_time", DRAWINGS["step_time"].summarise(records), "1")
    header, *rows = csv.reader(io.StringIO(figure.file("csv").decode()))
    assert {row[header.index("experiment")] for row in rows} == {f"'{EXPERIMENT}"}
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    drawn = figure.file("svg").decode()
    assert "alert(" in drawn
    assert "<script" not in drawn
    assert "<img" not in drawn


def test_the_portal_can_only_read(hostile: URL) -> None:
    """tests/store/test_concurrency.py checks this for PostgreSQL, too."""
    with engine.open_reader(hostile).connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.execute(text("UPDATE run SET status = 'ok'"))


def test_nothing_is_sent_and_requests_of_others_are_refused() -> None:
    config = tomllib.loads((project_root() / ".streamlit" / "config.toml").read_text())
    assert config["browser"]["gatherUsageStats"] is False
    assert {"enableCORS": True, "enableXsrfProtection": True, "maxUploadSize": 0}.items() <= config["server"].items()
    assert config["client"]["showErrorDetails"] == "none"


PLACES = """
import streamlit as st
from tmflow.base.text import markdown

TEXTS = {texts!r}
for at, words in enumerate(TEXTS):
    shown = markdown(words)
    for name, show in (("markdown", st.markdown), ("caption", st.caption), ("info", st.info), ("error", st.error),
                       ("warning", st.warning), ("header", st.header), ("expander", st.expander)):
        with st.container(key=f"{{name}}-{{at}}"):
            show(shown)
    with st.container(key=f"metric-{{at}}"):
        st.metric(shown, 1)
    with st.container(key=f"label-{{at}}"):
        st.selectbox(shown, ["x"], key=at)
"""
MARKED = "em, strong, code, del, img, a[href^=http], a[href^=mailto], table, li, b, script"
KINDS = ("markdown", "caption", "info", "error", "warning", "header", "expander", "metric", "label")
TEXTS = [
    MARKDOWN, ALERT, SIGNAL, FORMULA, "# h", "- item", "1. one", "> q", "| a | b |", "~~s~~ :blue-badge[x]",
    "&lt; \\*a\\*", "http://evil.example/a", "<b>x</b><script>alert(1)</script>",
    "a <- b -- c >= d <= e ~= f --- g", ":smile: :+1:",
]  # fmt: skip


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A browser page that fails the test if a foreign script runs or another host is contacted."""
    with chromium() as browser:
        yield browser.new_page(viewport={"width": 1440, "height": 1000})


@pytest.fixture
def harmless(page: Page) -> Iterator[Page]:
    wrong: list[str] = []
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: None if "127.0.0.1" in request.url else wrong.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    assert [what for what in wrong if not what.startswith(("data:", "blob:"))] == []


def settled(page: Page, address: str) -> None:
    page.goto(address)
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(timeout=60_000)


@pytest.mark.slow
def test_inert_text_is_shown_as_it_stands_wherever_markdown_is_read(harmless: Page, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PLACES.format(texts=TEXTS))
    with serve("", tmp_path / "app.py") as address:
        settled(harmless, address)
        for at, words in enumerate(TEXTS):
            for kind in KINDS:
                place = harmless.locator(f".st-key-{kind}-{at}")
                place.locator("p, h2").first.wait_for()
                assert words in place.inner_text().replace(JOINER, ""), kind
                assert place.locator(MARKED).count() == 0, (kind, words)


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_of_hostile_text_draw_it(harmless: Page, hostile: URL, scheme: str, tmp_path: Path) -> None:
    harmless.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    with serve(str(hostile)) as address:
        for metric in ("speedup", "accuracy", "staleness", "causes"):
            settled(harmless, f"{address}/explore?metric={metric}")
            charts = harmless.locator("[data-testid=stVegaLiteChart] svg")
            expect(charts.first).to_be_visible()
            if metric != "causes":  # whose legend names causes
                expect(charts.filter(has_text="alert(").first).to_be_visible()
            mark = harmless.locator("[data-testid=stVegaLiteChart] svg [aria-roledescription]").first
            mark.hover(force=True)
            harmless.screenshot(path=tmp_path / f"{metric}-{scheme}.png", full_page=True)
