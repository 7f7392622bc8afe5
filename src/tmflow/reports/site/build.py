"""Builds the site: every page, from the database, config.yaml, the claims and the docs."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import vl_convert

from tmflow._version import __version__
from tmflow.base import clock
from tmflow.base.errors import BadInput
from tmflow.base.files import whole_folder, write_json, write_text
from tmflow.charts import captions
from tmflow.charts.figures import VEGA_LITE, slug
from tmflow.claims.judge import KINDS, verdicts
from tmflow.claims.render import VERDICTS, accepted_verdicts, machines_sentence, without_runs
from tmflow.platform.description import described, format_fact
from tmflow.reports.html_report import MEASURES
from tmflow.reports.site import experiments, run_lists
from tmflow.reports.site import pages as method
from tmflow.reports.site.experiments import Album
from tmflow.reports.site.pages import Pages
from tmflow.store import queries
from tmflow.store.frames import Source
from tmflow.store.platform_queries import Facts
from tmflow.study.config import Scale, Study

MARKER = "site.json"  # marks a folder as a published site
ASSETS = ("site.css", "site.js")
EMBED = "window.vegaEmbed = vegaEmbed;"  # the entry point of Vega for the site's script


class Written(NamedTuple):
    """The size of a published site."""

    figures: int
    runs: int
    files: int
    bytes: int


def publish(
    source: Source, study: Study, scale: Scale, site: Path, tell: Callable[[str], None] = lambda _: None
) -> Written:
    """Write the site for the runs of a scale to the folder `site`; an earlier site there is replaced.

    `tell` receives a message for each experiment that is drawn (1 to 10 s each).
    Raises BadInput if `site` holds something else, or the database has no run of that scale.
    """
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
            "made_at_utc": clock.utc_now(),
        }
        pages = Pages(folder, {**about, "scale_in_words": captions.SCALES[scale], "conclusive": scale == "full"})
        _assets(folder)
        albums = []
        for name in _experiments(study, scale, here):
            tell(f"drawing {name}")
            albums.append(experiments.draw(source, name, study, scale, revision, folder))
        n_runs, n_listed = _runs(source, scale, here, folder, pages)
        judged = _claims(source, pages)
        _figures(albums, pages)
        _platforms(source, scale, here, pages)
        method.write(pages)
        pages.write(
            "index.html",
            scoreboard=judged,
            albums=albums,
            holdings=_holdings(here),
            n_platforms=here["platform"].nunique(),
            n_runs=n_runs,
            n_listed=n_listed,
            n_figures=sum(len(album.figures) for album in albums),
        )
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        write_json(folder / MARKER, about | {"files": len(sizes) + 1, "bytes": sum(sizes)})
    return Written(sum(len(album.figures) for album in albums), n_listed, len(sizes) + 1, sum(sizes))


def _require_ours(site: Path) -> None:
    """Raise BadInput unless `site` does not exist, is empty, or is a published site."""
    if not site.exists():
        return
    if not site.is_dir():
        raise BadInput(f"{site} is no folder: give the name of a new folder, or of a published site.")
    marker = site / MARKER
    if marker.is_file():
        try:
            about = json.loads(marker.read_text(encoding="utf-8"))
            if isinstance(about, dict) and "tmflow_site" in about:
                return
        except ValueError:
            pass
    if any(site.iterdir()):
        raise BadInput(
            f"{site} holds files that tmflow did not publish: nothing was written; "
            "give the name of a new folder, or of a published site."
        )


def _experiments(study: Study, scale: Scale, here: pd.DataFrame) -> list[str]:
    """The experiments of config.yaml with runs, in its order; then the others of the database, by name."""
    held = set(here["experiment"])
    planned = [name for name in study.at(scale) if study.source(name) in held]
    return [*planned, *sorted(held - set(planned))]


def _assets(folder: Path) -> None:
    """Write the files that pages load: the style, the site's script, and Vega, which draws the charts."""
    for name in ASSETS:
        text = files("tmflow.reports.site").joinpath("templates", name).read_text(encoding="utf-8")
        write_text(folder / "assets" / name, text)
    write_text(folder / "assets" / "vega.js", vl_convert.javascript_bundle(EMBED, VEGA_LITE))


def _figures(albums: list[Album], pages: Pages) -> None:
    pages.write("figures.html", albums=albums)
    for album in albums:
        pages.write(
            f"figures/{album.slug}.html",
            "experiment.html",
            album=album,
            choices={
                "platform": album.platforms,
                "evidence": album.evidences,
                "measure": {kind: captions.TITLES[MEASURES.get(kind, kind)] for kind in album.kinds},
                "panel": album.panels,
            },
            titles={kind: captions.TITLES[MEASURES.get(kind, kind)] for kind, _, _ in album.gaps},
        )
    index = [{"experiment": album.name, **figure._asdict()} for album in albums for figure in album.figures]
    write_json(pages.folder / "figures.json", index)


def _runs(source: Source, scale: Scale, here: pd.DataFrame, folder: Path, pages: Pages) -> tuple[int, int]:
    runs = run_lists.newest(source, scale)
    total = int(here["n_runs"].sum())
    index = run_lists.write(runs, total, folder / "runs")
    pages.write("runs.html", index=index)
    return total, len(runs)


def _claims(source: Source, pages: Pages) -> list[dict[str, Any]]:
    """Write the page of claims; return the scoreboard, a row for each kind of evidence."""
    judged = accepted_verdicts(verdicts(source))
    without = without_runs(judged)
    with_runs = [verdict for verdict in judged if verdict.evidence not in without]
    kinds = [kind for kind in KINDS if any(verdict.evidence == kind for verdict in with_runs)]
    scoreboard = [
        {
            "evidence": kind,
            "machines": sorted({v.machine for v in with_runs if v.evidence == kind and v.machine is not None}),
            "verdicts": {
                name: sum(v.evidence == kind and v.finding.verdict == name for v in with_runs) for name in VERDICTS
            },
        }
        for kind in kinds
    ]
    claims: dict[str, list[Any]] = {}
    for verdict in with_runs:
        claims.setdefault(verdict.id, []).append(verdict)
    pages.write(
        "claims.html",
        claims=claims,
        machines_sentence=machines_sentence,
        without=without,
        choices={"verdict": {name: name for name in VERDICTS}, "evidence": {kind: kind for kind in kinds}},
    )
    write_json(pages.folder / "claims.json", [verdict.as_json() for verdict in judged])
    return scoreboard


def _platforms(source: Source, scale: Scale, here: pd.DataFrame, pages: Pages) -> None:
    platforms = run_lists.platforms(source, scale, here)
    pages.write("platforms.html", platforms=platforms, facts=_facts, settings=_settings)
    write_json(pages.folder / "platforms.json", platforms)


def _facts(platform: Facts) -> list[tuple[str, str]]:
    return list(described(platform).itertuples(index=False, name=None))


def _settings(environment: Facts) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), format_fact(name, value)) for name, value in environment.items()]


def _holdings(here: pd.DataFrame) -> list[dict[str, Any]]:
    """The numbers of runs with and without a result, by experiment, platform and evidence."""
    keys = ["experiment", "platform", "evidence"]
    rows = []
    for key, part in here.groupby(keys, sort=False):
        n_ok = int(part.loc[part["status"] == "ok", "n_runs"].sum())
        n_others = int(part["n_runs"].sum()) - n_ok
        rows.append(dict(zip(keys, key, strict=True)) | {"slug": slug(str(key[0])), "ok": n_ok, "others": n_others})
    return rows
