"""The report: one self-contained file with every figure once, and the points that could not run."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.frames import ended, grid, records
from tmflow.base.errors import BadInput
from tmflow.charts import figures
from tmflow.charts.figures import draw_experiment
from tmflow.reports.html_report import experiment_table, gaps, write_report, write_table

QUESTION = "Is a < b, & who says so?"


class Page(HTMLParser):
    """Names, links and text of a page; its elements must be nested correctly."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids[str(value)] += 1
            if name == "href" and tag == "a":
                self.links.append(str(value))
            if name in ("src", "xlink:href") or (name == "href" and tag != "a"):
                self.loads.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two experiments: one with a figure of the study and a strategy that cannot run; one without any result."""
    monkeypatch.setattr(figures, "FORMATS", {"csv": "text/csv", "vl.json": "application/json"})
    runs = grid(("tf_lock", "htm"), rounds=2, experiment="fig-4.1")
    ended(runs, runs["strategy"] == "htm", "unsupported", "no <RTM> here")
    nothing = grid(("htm",), rounds=2, experiment="other", status="unsupported", reason="no <RTM> here")
    for name, experiment_runs in (("fig-4.1", runs), ("other", nothing)):
        kinds = ["speedup", "accuracy"] if name == "fig-4.1" else None
        draw_experiment(records(experiment_runs), name, tmp_path / "figures" / name, "42", kinds)
        write_table(experiment_runs, name, QUESTION, "full", tmp_path / "tables" / f"{name}.html")
    platform: dict[str, Any] = {"display_name": "A box", "facts": {"l3_bytes": None, "cpu_model": "Box & Co"}}
    (tmp_path / "platform.json").write_text(json.dumps(platform))
    return tmp_path


def report(results: Path, scale: str = "full", first: tuple[str, ...] = ()) -> str:
    path = results / "report.html"
    write_report(results, {"fig-4.1": QUESTION, "other": "And the other?"}, scale, path, first)
    return path.read_text()


def test_the_report_is_one_whole_page_that_loads_nothing(results: Path) -> None:
    page = Page(report(results))
    assert page.loads == []
    assert not [link for link in page.links if "://" in link]
    assert {name for name, n in page.ids.items() if n > 1} == set()
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert all((results / link).exists() for link in page.links if not link.startswith("#"))


def test_the_report_shows_each_figure_with_its_caption_and_each_table(results: Path) -> None:
    text = report(results)
    page = Page(text)
    assert text.count("<svg") == 2
    assert len(set(re.findall(r'clipPath id="([^"]+)"', text))) == len(re.findall("<clipPath", text))
    assert (
        page.text.count("Speedup over the same strategy with one worker, as figure 4.1 of the study") == 1
    )  # not in the picture
    for part in ("database revision 42", QUESTION, "A box", "Box & Co", "unreadable", "4 of 8", "0 of 4"):
        assert part in page.text
    assert "Not drawn: Test accuracy: unsupported: no <RTM> here." in page.text


def test_what_comes_first_comes_before_the_figures_and_as_it_is(results: Path) -> None:
    text = report(results, first=('<section class="claims"><h2>What holds</h2></section>',))
    assert text.index("<h2>What holds</h2>") < text.index('id="experiments"') < text.index('id="figures"')


@pytest.mark.parametrize(("scale", "warned"), [("quick", True), ("full", False)])
def test_the_quick_scale_is_called_what_it_is(results: Path, scale: str, warned: bool) -> None:
    assert ("Not conclusive" in report(results, scale)) is warned


def test_each_reason_is_told_once_with_all_that_it_concerns() -> None:
    runs = grid(("lock", "htm", "tle"), (1, 2), rounds=2)
    ended(runs, runs["strategy"] != "lock", "unsupported", "no hardware")
    ended(runs, (runs["strategy"] == "lock") & (runs["threads"] == 2) & (runs["round"] == 1), "failed", "boom")
    table = experiment_table(runs)
    assert [tuple(gap) for gap in gaps({"a": table, "b": table})] == [
        ("unsupported: no hardware", {"a": ["htm", "tle"], "b": ["htm", "tle"]})
    ]
    assert list(gaps({"a": pd.DataFrame(table[table["strategy"] == "lock"])})) == []


@pytest.mark.parametrize("missing", ["platform.json", "figures/fig-4.1/figures.json", "tables/other.csv"])
def test_a_file_that_no_step_has_written_yet_is_one_sentence(results: Path, missing: str) -> None:
    (results / missing).unlink()
    with pytest.raises(
        BadInput, match=f"^{re.escape(str(results / missing))} is missing, and the report is made of it"
    ):
        report(results)
    assert not (results / "report.html").exists()
