"""The report in a real browser: wide, narrow and printed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import SIZES, chromium
from playwright.sync_api import expect
from sqlalchemy import URL

from tmflow.charts import figures
from tmflow.reports.html_report import write_report, write_table
from tmflow.store import engine, queries
from tmflow.store.run_filter import RESULTS

pytestmark = pytest.mark.slow
KINDS = ["speedup", "failures"]


@pytest.fixture
def report(seeded: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(figures, "FORMATS", {"csv": "text/csv", "vl.json": "application/json"})
    reader = engine.open_reader(seeded)
    records = queries.records(reader, replace(RESULTS, experiments=["transactions"], scales=["full"]))
    figures.draw_experiment(records, "transactions", tmp_path / "figures" / "transactions", "42", KINDS)
    write_table(records.runs, "transactions", "Why?", "full", tmp_path / "tables" / "transactions.html")
    (tmp_path / "platform.json").write_text(json.dumps({"display_name": "A box", "facts": {"cores": 4}}))
    write_report(tmp_path, {"transactions": "Why?"}, "full", tmp_path / "report.html")
    return tmp_path / "report.html"


def test_the_report_fits_every_page(report: Path, tmp_path: Path) -> None:
    """No part is wider than the page, charts can be scrolled by keyboard, and the marks are there."""
    with chromium() as browser:
        for name, size in SIZES.items():
            page = browser.new_page(viewport=size)
            asked: list[str] = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto(report.as_uri())
            page.screenshot(path=tmp_path / f"report-{name}.png", full_page=True)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert asked == [report.as_uri()]
            expect(page.locator("figure svg [aria-roledescription=point]").first).to_be_visible()
            expect(page.locator("figure svg [aria-label^='4 workers, conflict: ']").first).to_be_visible()
            chart = page.get_by_role("group", name="Share of attempts that aborted").first
            chart.focus()
            expect(chart).to_be_focused()
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"
