"""A published site is complete and escaped, its links work, and its files contain the drawn data."""

from __future__ import annotations

import io
import json
import math
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import numpy as np
import pandas as pd
import pytest
from published import HOSTILE, OWN_DATA, Published

from tmflow.analysis.stats import Interval
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.platform.description import described
from tmflow.reports.findings import Effect, Finding
from tmflow.reports.site.build import publish
from tmflow.reports.site.json_files import INDEX, findings_document
from tmflow.reports.site.run_list import newest_runs, write_runs
from tmflow.store import engine, queries, schema
from tmflow.store.run_filter import RunFilter
from tmflow.study.config import load_study


class Tags(HTMLParser):
    """The links, anchors, tags and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.links += [value for name in ("href", "src") if (value := attributes.get(name)) is not None]
        self.ids += [value for value in [attributes.get("id")] if value is not None]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def pages_of(folder: Path) -> dict[Path, Tags]:
    return {path: Tags(path.read_text()) for path in folder.rglob("*.html")}


def test_every_link_is_relative_and_leads_somewhere(site: Published) -> None:
    pages = pages_of(site.site)
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("https://", "http://", "data:")):
                continue
            assert not link.startswith("/"), f"{path}: {link}"
            to = (path.parent / unquote(urlsplit(link).path)).resolve() if urlsplit(link).path else path.resolve()
            assert to.is_file(), f"{path}: {link}"
            anchor = unquote(urlsplit(link).fragment)
            if anchor and "=" not in anchor:
                assert anchor in pages[to].ids, f"{path}: {link}"


def test_no_id_is_there_twice(site: Published) -> None:
    for path, page in pages_of(site.site).items():
        assert len(page.ids) == len(set(page.ids)), path


def test_text_of_the_database_stays_text(site: Published) -> None:
    pages = pages_of(site.site)
    for path, page in pages.items():
        assert not [tag for tag, attributes in page.tags if tag == "b" or "onerror" in attributes], path
        assert [attributes["src"] for tag, attributes in page.tags if tag == "script"], path
    assert HOSTILE in "".join(pages[site.site / "platforms.html"].text)
    assert OWN_DATA in "".join(pages[site.site / "figures.html"].text)


def test_scripts_are_files_of_the_site_alone(site: Published) -> None:
    for path, page in pages_of(site.site).items():
        policy = next(
            attributes["content"]
            for tag, attributes in page.tags
            if attributes.get("http-equiv") == "Content-Security-Policy"
        )
        assert policy is not None
        assert "unsafe" not in policy
        inline = [attributes for tag, attributes in page.tags if tag == "script" and "src" not in attributes]
        assert inline == [], path
        assert [attributes for _, attributes in page.tags if "style" in attributes or "onclick" in attributes] == [], (
            path
        )


def test_figures_are_those_of_the_study_and_of_experiments_that_are_not_planned(site: Published) -> None:
    index = json.loads((site.site / "figures.json").read_text())
    assert {entry["experiment"] for entry in index} == {"fig-4.11", OWN_DATA}
    # Figure 4.10 needs batches of 1, of which there is no run: its page says so.
    assert "Not drawn: Speedup over the same strategy with one worker: no run measured it." in "".join(
        Tags((site.site / "figures" / "fig-4.10.html").read_text()).text
    )
    assert {entry["evidence"] for entry in index} == {"measured", "emulated"}
    assert not [e for e in index if e["evidence"] == "emulated" and e["measure"] in ("speedup", "step_time")]
    assert site.written.figures == len(index)


def test_the_files_of_a_figure_have_the_same_numbers(site: Published) -> None:
    index = json.loads((site.site / "figures.json").read_text())
    speedup = next(entry for entry in index if entry["experiment"] == OWN_DATA and entry["measure"] == "speedup")
    numbers = pd.read_csv(site.site / f"{speedup['path']}.csv")["estimate"].dropna()
    spec = json.loads((site.site / f"{speedup['path']}.vl.json").read_text())
    drawn = {row["estimate"] for rows in spec["datasets"].values() for row in rows if "estimate" in row}
    assert drawn == set(numbers)
    svg = (site.site / f"{speedup['path']}.svg").read_text()
    assert svg.count('aria-roledescription="point"') == len(numbers)


def test_every_json_file_is_in_the_index_and_has_no_nan(site: Published) -> None:
    index = json.loads((site.site / INDEX).read_text())
    assert (index["kind"], index["schema_version"], index["scale"]) == ("tmflow-index", 1, "full")
    assert index["revision"] == queries.revision(engine.open_reader(site.url))
    paths = [document["path"] for document in index["documents"]]
    runs = json.loads((site.site / "runs" / "index.json").read_text())["files"]
    there = {name for name in files_of(site.site) if name.endswith(".json") and not name.endswith(".vl.json")}
    there = {name for name in there if not name.startswith("method/")}  # files of the docs
    assert there - {INDEX, *(f"runs/{name}" for name in runs)} == set(paths)
    assert len(paths) == len(set(paths))
    for name in there:

        def refuse(constant: str, name: str = name) -> None:
            pytest.fail(f"{name} has {constant}")

        json.loads((site.site / name).read_text(), parse_constant=refuse)


def test_the_json_of_a_figure_has_the_numbers_and_units_of_its_csv(site: Published) -> None:
    for entry in json.loads((site.site / "figures.json").read_text()):
        document = json.loads((site.site / f"{entry['path']}.json").read_text())
        assert (document["kind"], document["schema_version"]) == ("tmflow-figure", 1)
        assert (document["title"], document["caption"]) == (entry["title"], entry["caption"])
        columns = {column["name"]: column for column in document["columns"]}
        assert all(set(column) == {"name", "type", "unit"} for column in columns.values())
        table = pd.DataFrame(document["rows"], columns=list(columns))
        csv = pd.read_csv(site.site / f"{entry['path']}.csv")
        assert list(table) == list(csv)
        for name, column in columns.items():
            if column["type"] in ("integer", "number"):
                numbers = pd.to_numeric(table[name]).astype(float).to_numpy()
                np.testing.assert_array_equal(numbers, csv[name].astype(float).to_numpy(), err_msg=name)
        python = {"integer": int, "number": float, "boolean": bool, "string": str}
        for row in document["rows"]:
            for value, column in zip(row, document["columns"], strict=True):
                assert value is None or isinstance(value, python[column["type"]]), column
        (unit,) = set(table["unit"])
        assert {columns[name]["unit"] for name in ("estimate", "low", "high")} == {unit}
        assert (columns["threads"]["unit"], columns["threads"]["type"]) == ("threads", "integer")


def test_the_findings_are_numbers_with_intervals(tmp_path: Path) -> None:
    speed, missing = Interval(1.5, 1.25, 1.75, 6), Interval(0.5, math.nan, math.nan, 1)
    effect = Effect("htm", speed, "more", "lock", "fig-4.10", 4, 1)
    document = findings_document(
        [Finding("p", "P", "full", "mnist_deep", {"htm": effect}, frozenset(["stm"]), missing, None)]
    )
    assert (document["kind"], document["schema_version"]) == ("tmflow-findings", 1)
    (finding,) = json.loads(json.dumps(document, allow_nan=False))["findings"]
    assert finding["scale"] == "full"
    assert finding["speed_over_lock"] == [
        {"quantity": "htm", "variant": "htm", "baseline": "lock", "experiment": "fig-4.10", "workers": 4, "batch": 1,
         "estimate": 1.5, "low": 1.25, "high": 1.75, "rounds": 6}
    ]  # fmt: skip
    assert finding["elements_in_transactions"] == {"estimate": 0.5, "low": None, "high": None, "rounds": 1}
    assert (finding["lost_updates"], finding["unsupported"]) == (None, ["stm"])


def test_a_chart_can_stand_in_a_frame_and_its_page_shows_how(site: Published) -> None:
    for entry in json.loads((site.site / "figures.json").read_text()):
        embedded = Tags((site.site / entry["embed"]).read_text())
        assert entry["title"] in "".join(embedded.text)
        (chart,) = [attributes["data-chart"] for _, attributes in embedded.tags if "data-chart" in attributes]
        assert ((site.site / entry["embed"]).parent / f"{chart}.vl.json").resolve().is_file()
        album = Tags((site.site / "figures" / f"{entry['path'].split('/')[1]}.html").read_text())
        (snippet,) = [text for text in album.text if f'src="{entry["embed"]}"' in text]
        ((tag, attributes),) = Tags(snippet).tags
        assert (tag, attributes["title"]) == ("iframe", entry["title"])


@pytest.mark.deep
def test_the_site_may_link_to_a_live_portal(site: Published, tmp_path: Path) -> None:
    study, reader = load_study(project_root() / "config.yaml"), engine.open_reader(site.url)
    publish(reader, study, "full", tmp_path / "site", portal="https://portal.example.org/live/")

    def links(page: str) -> set[str]:
        tags = Tags((tmp_path / "site" / page).read_text()).tags
        return {str(attributes["href"]) for name, attributes in tags if name == "a" and "href" in attributes}

    live = "https://portal.example.org/live"
    assert f"{live}/" in links("index.html")
    assert f"{live}/figures?figure=4.11" in links("figures/fig-4.11.html")
    assert f"{live}/claims?claim=deep-linear" in links("claims.html")
    own = next(path.name for path in (tmp_path / "site" / "figures").glob("*.html") if not path.name.startswith("fig-"))
    assert f"{live}/explore?experiment={quote(OWN_DATA, safe='')}" in links(f"figures/{own}")
    for page in ("index.html", "claims.html", "figures/fig-4.11.html"):
        assert "portal.example.org" not in (site.site / page).read_text()  # without the option


@pytest.mark.parametrize("portal", ["javascript:alert(1)", "portal.example.org", "https://", "https://a.example/?x=1"])
def test_a_portal_without_an_address_is_refused(portal: str, site: Published, tmp_path: Path) -> None:
    study, reader = load_study(project_root() / "config.yaml"), engine.open_reader(site.url)
    with pytest.raises(BadInput, match="is no address of a portal: give one such as"):
        publish(reader, study, "full", tmp_path / "site", portal=portal)
    assert not (tmp_path / "site").exists()


def test_all_runs_are_listed_with_their_command(site: Published) -> None:
    index = json.loads((site.site / "runs" / "index.json").read_text())
    rows = [row for name in index["files"] for row in json.loads((site.site / "runs" / name).read_text())]
    stored = queries.runs(engine.open_reader(site.url), RunFilter(newest_definitions=True))
    assert index["total"] == index["listed"] == len(rows) == len(stored)
    table = pd.DataFrame(rows, columns=index["columns"]).set_index("uid")
    assert set(table.index) == set(stored["uid"])
    assert table["started_at_utc"].is_monotonic_decreasing
    assert table["command"].str.startswith("tmflow train --model ").all()
    emulated = table[table["evidence"] == "emulated"]
    assert len(emulated)
    assert emulated["loop_s"].isna().all()  # an emulated run shows no time
    assert set(table.loc[table["status"] == "unsupported", "reason"]) == {HOSTILE}


def test_facts_of_a_machine_read_as_in_the_portal(site: Published) -> None:
    words = "".join(Tags((site.site / "platforms.html").read_text()).text)
    (platform,) = json.loads((site.site / "platforms.json").read_text())
    for fact, value in described(platform["facts"]).itertuples(index=False):
        assert fact in words
        assert value in words


def test_of_too_many_runs_the_newest_are_listed_and_that_is_said(site: Published, tmp_path: Path) -> None:
    reader = engine.open_reader(site.url)
    every = newest_runs(reader, "full")
    few = newest_runs(reader, "full", at_most=5)
    assert list(few["uid"]) == list(every["uid"][:5])
    index = write_runs(few, len(every), {}, tmp_path)
    assert (index["listed"], index["total"]) == (5, len(every))


def test_a_second_site_takes_the_place_of_the_first(site: Published, tmp_path: Path) -> None:
    shutil.copytree(site.site, tmp_path / "site")
    (tmp_path / "site" / "old.html").write_text("old")
    publish(engine.open_reader(site.url), load_study(project_root() / "config.yaml"), "full", tmp_path / "site")
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert not (tmp_path / "site" / "old.html").exists()
    assert files_of(tmp_path / "site") == files_of(site.site)  # the same data give the same files


@pytest.mark.parametrize("content", [None, "not json", "{}", "5", '["tmflow_site"]'])
def test_a_folder_of_something_else_is_left_alone(content: str | None, site: Published, tmp_path: Path) -> None:
    study = load_study(project_root() / "config.yaml")
    (tmp_path / "thesis.txt").write_text("mine")
    if content is not None:
        (tmp_path / "site.json").write_text(content)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BadInput, match="holds files that tmflow did not publish: nothing was written"):
        publish(engine.open_reader(site.url), study, "full", tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_published_is_a_sentence(site: Published, tmp_path: Path) -> None:
    study = load_study(project_root() / "config.yaml")
    with pytest.raises(BadInput, match=r"no run of --scale quick to publish; scales that it has runs of: full\.$"):
        publish(engine.open_reader(site.url), study, "quick", tmp_path / "site")
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="is no folder"):
        publish(engine.open_reader(site.url), study, "full", tmp_path / "file")
    empty = engine.sqlite_url(tmp_path / "empty.db")
    schema.upgrade(empty)
    with pytest.raises(BadInput, match=r"scales that it has runs of: none\.$"):
        publish(engine.open_reader(empty), study, "full", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_the_csv_is_read_back(site: Published) -> None:
    index = json.loads((site.site / "figures.json").read_text())
    for entry in index:
        text = (site.site / f"{entry['path']}.csv").read_text()
        assert set(pd.read_csv(io.StringIO(text))["evidence"]) == {entry["evidence"]}
