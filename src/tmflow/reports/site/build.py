"""Builds the site: every page, from the database, config.yaml, the claims and the docs.

All text is escaped and every link is relative.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pandas as pd
import vl_convert

from tmflow._version import __version__
from tmflow.analysis.run_table import shown_of
from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.base.files import whole_folder, write_bytes, write_json, write_text
from tmflow.base.text import one_line
from tmflow.charts import captions, figures
from tmflow.charts.figures import DRAWINGS, VEGA_LITE, Figure, figures_of, gaps_of, slug
from tmflow.claims.originals import DISTRIBUTED_STUDY, HPX_STUDY, load_originals
from tmflow.claims.origins import KINDS, Judged, verdicts
from tmflow.claims.render import (
    VERDICTS,
    accepted_verdicts,
    count_findings,
    machines_sentence,
    without_runs,
)
from tmflow.platform.description import described, format_fact
from tmflow.reports.site import json_files, run_list, summary
from tmflow.reports.site.pages import Pages, write_docs
from tmflow.store import platform_queries, queries, run_detail
from tmflow.store.frames import Source
from tmflow.store.run_filter import RESULTS, RunFilter
from tmflow.study.config import Scale, Study

MARKER = "site.json"  # marks a folder as a published site
ASSETS = ("site.css", "site.js")
EMBEDDED = "embed"  # the folder of the pages that stand in a frame of another site
EMBED = "window.vegaEmbed = vegaEmbed;"  # the entry point of Vega for the site's script
LONGEST = 100  # characters of a wrong address in a message
FORMATS = ("svg", "csv", "json", "vl.json")  # of the files of a figure


class Written(NamedTuple):
    """The size of a published site."""

    figures: int
    runs: int
    files: int
    bytes: int


class Entry(NamedTuple):
    """A figure with the paths of its files, without the extension, and of its page for frames, in the site's folder."""

    id: str
    path: str
    embed: str
    measure: str
    panel: str
    platform: str
    evidence: str
    title: str
    describes: str
    caption: list[str]

    @property
    def snippet(self) -> str:
        """The HTML that shows the figure in another page; the site's script completes the address."""
        size = 'width="100%" height="460" loading="lazy"'
        return f'<iframe src="{escape(self.embed)}" title="{escape(self.title)}" {size}></iframe>'


class Album(NamedTuple):
    """An experiment with its figures, its gaps (kind, panel, reasons), and the names of its platforms."""

    name: str
    slug: str
    figure: str | None
    question: str
    runs_of: str | None
    figures: list[Entry]
    gaps: list[tuple[str, str, str]]
    platforms: dict[str, str]


def publish(
    source: Source,
    study: Study,
    scale: Scale,
    site: Path,
    tell: Callable[[str], None] = lambda _: None,
    portal: str = "",
) -> Written:
    """Write the site for the runs of a scale to the folder `site`; an earlier site there is replaced.

    `tell` receives a message for each experiment that is drawn (1 to 10 s each). portal: the address of a live portal
    of the same database, to which the pages link; empty if there is none.
    Raises BadInput if `site` holds something else, the database has no run of that scale, or the portal is no address.
    """
    _require_address(portal)
    _require_ours(site)
    counts = queries.counts(source)
    here = counts[counts["scale"] == scale]
    if here.empty:
        others = ", ".join(sorted(set(counts["scale"]))) or "none"
        raise BadInput(f"the database has no run of --scale {scale} to publish; scales that it has runs of: {others}.")
    with whole_folder(site.absolute()) as folder:
        revision = queries.revision(source)
        about = {
            "tmflow_site": 1,
            "tmflow": __version__,
            "revision": revision,
            "scale": scale,
            "made_at_utc": utc_now(),
        }
        words = {"scale_in_words": captions.SCALES[scale], "conclusive": scale == "full"}
        pages = Pages(folder, {**about, **words, "portal": portal.rstrip("/")}, study.titles)
        _write_assets(folder)
        planned = [name for name in study.at(scale) if study.source(name) in set(here["experiment"])]
        albums = []
        for name in [*planned, *sorted(set(here["experiment"]) - set(planned))]:
            tell(f"drawing {name}")
            albums.append(_draw(source, name, study, scale, revision, folder))
        n_runs, n_figures, runs = (
            int(here["n_runs"].sum()),
            sum(len(a.figures) for a in albums),
            run_list.newest_runs(source, scale),
        )
        pages.write("runs.html", index=run_list.write_runs(runs, n_runs, study.titles, folder / "runs"))
        judged = accepted_verdicts(verdicts(source))
        scoreboard = _write_claims(judged, pages)
        _write_figures(albums, judged, pages)
        _write_platforms(source, scale, here, pages)
        write_docs(pages)
        by_model = summary.find_by_model(source, counts) if scale == "full" else {}
        machines = platform_queries.platforms(source)
        document = json_files.findings_document(finding for of_model in by_model.values() for finding in of_model)
        write_json(folder / json_files.FINDINGS, document)
        json_files.write_index(folder, about, [(figure.path, figure.title) for a in albums for figure in a.figures])
        pages.write(
            "index.html",
            scoreboard=scoreboard,
            study=load_originals().study.citation(),
            distributed_study=DISTRIBUTED_STUDY,
            hpx_study=HPX_STUDY,
            models=[summary.summarise_model(model, of, machines, study.titles) for model, of in by_model.items()],
            platforms=summary.answer_by_platform(source, counts, revision, study.titles) if scale == "full" else [],
            holdings=run_list.count_runs(here),
            n_platforms=here["platform"].nunique(),
            n_runs=n_runs,
            n_figures=n_figures,
        )
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        write_json(folder / MARKER, about | {"files": len(sizes) + 1, "bytes": sum(sizes)})
    return Written(n_figures, len(runs), len(sizes) + 1, sum(sizes))


def _require_address(portal: str) -> None:
    """Raise BadInput unless `portal` is empty or an address of the web."""
    parts = urlsplit(portal)
    if portal and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise BadInput(
            f"--portal {one_line(portal)[:LONGEST]} is no address of a portal: give one such as "
            "https://portal.example.org, without a query."
        )


def _require_ours(site: Path) -> None:
    """Raise BadInput unless `site` does not exist, is empty, or is a published site."""
    if not site.exists():
        return
    if not site.is_dir():
        raise BadInput(f"{site} is no folder: give the name of a new folder, or of a published site.")
    try:
        about = json.loads((site / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        about = None
    if any(site.iterdir()) and not (isinstance(about, dict) and "tmflow_site" in about):
        raise BadInput(
            f"{site} holds files that tmflow did not publish: nothing was written; "
            "give the name of a new folder, or of a published site."
        )


def _write_assets(folder: Path) -> None:
    """Write the files that pages load: the style, the site's script, and Vega, which draws the charts."""
    for name in ASSETS:
        text = files("tmflow.reports.site").joinpath("templates", name).read_text(encoding="utf-8")
        write_text(folder / "assets" / name, text)
    write_text(folder / "assets" / "vega.js", vl_convert.javascript_bundle(EMBED, VEGA_LITE))


def _draw(source: Source, name: str, study: Study, scale: Scale, revision: str, site: Path) -> Album:
    """Write the files of every figure of an experiment under `site`/figures; return the data of its page.

    An experiment that is not in config.yaml gets every kind of figure that its runs have data for.
    """
    planned = study.experiments.get(name) if name in study.at(scale) else None
    runs_of = study.source(name) if planned else name
    records = queries.records(source, replace(RESULTS, experiments=[runs_of], scales=[scale]))
    only, shows = (planned.shown()["only"], planned.shows) if planned else ({}, None)
    records = records._replace(runs=shown_of(records.runs, only))
    published = load_originals().published_by(name)
    drawn: dict[str, Entry] = {}
    gaps: list[tuple[str, str, str]] = []
    for kind in shows or figures.recorded(records):
        drawn_summary = DRAWINGS[kind].summarise(records)
        for label, figure in figures_of(kind, drawn_summary, revision, name, published(kind), study.titles):
            path = base = f"figures/{slug(name)}/{figures.stem(name, kind, label)}"
            again = 1
            while path in drawn:  # labels may differ only in characters that file names lack
                again += 1
                path = f"{base}-{again}"
            drawn[path] = _entry(path, kind, label, figure)
            for extension, content in figure.files(FORMATS).items():
                write_bytes(site / f"{path}.{extension}", content)
        gaps += [(kind, label, "; ".join(reasons)) for label, reasons in gaps_of(kind, drawn_summary)]
    platforms = records.runs.drop_duplicates(["platform", "platform_name"])
    return Album(
        name,
        slug(name),
        captions.figure_of_the_study(name),
        planned.question if planned else "",
        runs_of if runs_of != name else None,
        list(drawn.values()),
        gaps,
        {key: f"{words} ({key})" for key, words in zip(platforms["platform"], platforms["platform_name"], strict=True)},
    )


def _entry(path: str, kind: str, label: str, figure: Figure) -> Entry:
    first = figure.summary.iloc[0]
    return Entry(
        id=path.rpartition("/")[2],
        path=path,
        embed=f"{EMBEDDED}{path.removeprefix('figures')}.html",
        measure=kind,
        panel=label,
        platform=str(first["platform"]),
        evidence=str(first["evidence"]),
        title=figure.caption.title,
        describes=str(figure.chart.description),
        caption=figure.caption.lines,
    )


def _write_figures(albums: list[Album], judged: list[Judged], pages: Pages) -> None:
    originals = load_originals()
    pages.write("figures.html", albums=albums, originals=originals.figures)
    for album in albums:
        original = originals.figures.get(album.figure or "")
        on_figure = [it for it in judged if original and album.figure in originals.figures_of_claim(it.claim)]
        choices = {
            "platform": album.platforms,
            "evidence": {figure.evidence: figure.evidence for figure in album.figures},
            "measure": {figure.measure: captions.TITLES[figure.measure] for figure in album.figures},
            "panel": {figure.panel: figure.panel for figure in album.figures if figure.panel},
        }
        pages.write(
            f"figures/{album.slug}.html",
            "experiment.html",
            album=album,
            choices=choices,
            original=original,
            figures=originals.figures,
            verdicts=on_figure,
        )
        for figure in album.figures:
            pages.write(figure.embed, "embed.html", album=album, figure=figure)
    index = [{"experiment": album.name, **figure._asdict()} for album in albums for figure in album.figures]
    write_json(pages.folder / "figures.json", index)


def _write_claims(judged: list[Judged], pages: Pages) -> list[dict[str, Any]]:
    """Write the page of claims; return the scoreboard, a row for each kind of evidence."""
    without = without_runs(judged)
    by_kind = {
        kind: [verdict for verdict in judged if verdict.evidence == kind] for kind in KINDS if kind not in without
    }
    by_kind = {kind: of_kind for kind, of_kind in by_kind.items() if of_kind}
    claims: dict[str, list[Any]] = {}
    for verdict in judged:
        if verdict.evidence in by_kind:
            claims.setdefault(verdict.id, []).append(verdict)
    pages.write(
        "claims.html",
        claims=claims,
        machines_sentence=machines_sentence,
        without=without,
        choices={"verdict": {name: name for name in VERDICTS}, "evidence": {kind: kind for kind in by_kind}},
    )
    write_json(pages.folder / "claims.json", [verdict.as_json() for verdict in judged])
    return [
        {
            "evidence": kind,
            "machines": sorted({verdict.machine for verdict in of if verdict.machine is not None}),
            "verdicts": {name: count_findings(of)[name] for name in VERDICTS},
        }
        for kind, of in by_kind.items()
    ]


def _write_platforms(source: Source, scale: Scale, here: pd.DataFrame, pages: Pages) -> None:
    """Write each platform and source with its facts, the environment of its newest run, and counts of its runs.

    `here` are the counts of this scale.
    """
    platforms = []
    for key, part in here.groupby("platform"):
        newest_run = queries.page(source, RunFilter(scales=(scale,), platforms=(str(key),)), rows=1)
        run = run_detail.run(source, str(newest_run["uid"].iloc[0]))
        ran = part.groupby(["experiment", "evidence", "status"], sort=False)["n_runs"].sum().reset_index()
        platforms.append(
            {
                "slug": str(key),
                "name": str(part["platform_name"].iloc[0]),
                "facts": run["platform"],
                "environment": run["environment"],
                "ran": ran.to_dict("records"),
            }
        )
    pages.write(
        "platforms.html",
        platforms=platforms,
        facts=lambda facts: list(described(facts).itertuples(index=False, name=None)),
        settings=lambda facts: [(name.replace("_", " "), format_fact(name, value)) for name, value in facts.items()],
    )
    write_json(pages.folder / "platforms.json", platforms)
