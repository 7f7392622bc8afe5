"""The page of the study's figures: the list, and one figure with the results of our runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import kept
from tmflow.base.errors import BadInput
from tmflow.base.escaping import markdown
from tmflow.base.paths import project_root
from tmflow.charts.figures import DRAWINGS, drawable, gaps_of, stem
from tmflow.claims.judge import Judged
from tmflow.claims.original_figures import Originals, experiment_of
from tmflow.claims.render import accepted_verdicts
from tmflow.claims.schema import load_claims
from tmflow.portal.badges import badge, load_verdicts, verdict_badge
from tmflow.portal.figure_view import cached_figure, show_figure
from tmflow.portal.links import halves, link, show_commands
from tmflow.portal.study_data import SelectedRecords, Study
from tmflow.portal.url_state import PLATFORM, Filter, Key, choose
from tmflow.store import queries
from tmflow.study import config
from tmflow.study.commands import rerun
from tmflow.study.config import SCALES, Scale
from tmflow.study.figure_selection import Shown

UNKNOWN = "unknown"
OF = [
    PLATFORM,
    Filter(Key.SCALE, "Scale"),
    Filter(Key.EVIDENCE, "Evidence", several=True, with_all=True),
]


def show_list(originals: Originals, study: Study) -> None:
    """Show a link for each figure, with the verdicts on its finding."""
    platform = choose(OF[:1], study.counts, study.platform_names, defaults=study.first).one(Key.PLATFORM)
    verdicts = accepted_verdicts(load_verdicts(study, platform))
    st.caption("Each figure has the verdicts of this platform's runs on its finding. Open a figure for its charts.")
    for column, part in zip(st.columns(2), halves(list(originals.figures.items())), strict=True):
        with column:
            for number, original in part:
                with_runs = [
                    original for original in _verdicts_on(number, originals, verdicts) if original.machine is not None
                ]
                link("figures", f"**Figure {number}**", figure=number, platform=platform)
                badges = " ".join(map(verdict_badge, with_runs)) or badge("untested")
                st.markdown(f"{original.title} {badges}  \n:small[:gray[{original.finding}]]")
    st.subheader("Conclusions of the study")
    st.markdown(originals.conclusions)
    _verdicts([verdict for verdict in verdicts if not originals.figures_of(verdict.claim.source)], platform)


def show_detail(number: str, originals: Originals, study: Study) -> None:
    """Show one figure: the finding of the study, the verdicts, our charts, and their sources."""
    _show_original(number, originals)
    name = experiment_of(number)
    try:
        plan = _plan(project_root() / "config.yaml")
        if name not in plan.experiments:
            raise BadInput(f"config.yaml has no experiment {name}, which repeats this figure.")
    except BadInput as error:
        st.error(markdown(error))
        return
    held = study.counts[study.counts["experiment"] == plan.source(name)]
    if held.empty:
        _neighbours(number, originals)
        st.info(f"There are no runs of figure {number} here. To measure them, run in the project's folder:")
        show_commands(rerun(name))
        return
    selected = choose(OF, held, study.platform_names, defaults=study.first)
    platform, scale = selected.one(Key.PLATFORM), selected.one(Key.SCALE)
    _neighbours(number, originals, platform=platform)
    claims = [key for key, claim in load_claims().claims.items() if number in originals.figures_of(claim.source)]
    _verdicts(accepted_verdicts(load_verdicts(study, platform, claims)), platform)
    held = held[(held["platform"] == platform) & (held["scale"] == scale)]
    records = study.records(plan.source(name), scale, [platform], sorted(held["evidence"].unique()))
    evidences = selected.chosen[Key.EVIDENCE] or tuple(selected.options[Key.EVIDENCE])
    _charts(name, plan, records, evidences, study)
    _show_sources(name, plan, records._replace(evidences=evidences), study)


def _show_original(number: str, originals: Originals) -> None:
    """Show the configuration and the finding of the original figure."""
    original = originals.figures[number]
    st.markdown(f"{original.title}. **The study found:** {original.finding}")
    values = {"pixels": original.matrix, "iterations": original.iterations}
    parts = [f"{name} {UNKNOWN if value is None else value}" for name, value in values.items()]
    st.caption(
        f"Configuration of the study: {original.platform}, {original.model}, batch {original.batch}, "
        f"{', '.join(parts)}."
    )


def _neighbours(number: str, originals: Originals, **view: str) -> None:
    """Show links to the previous figure, all figures and the next figure."""
    numbers = list(originals.figures)
    place = numbers.index(number)
    with st.container(horizontal=True):
        for other in numbers[max(place - 1, 0) : place]:
            link("figures", f"← {other}", figure=other, **view)
        link("figures", "All figures", **view)
        for other in numbers[place + 1 : place + 2]:
            link("figures", f"{other} →", figure=other, **view)


def _verdicts_on(number: str, originals: Originals, verdicts: Iterable[Judged]) -> list[Judged]:
    """The verdicts on claims whose source is this figure."""
    return [verdict for verdict in verdicts if number in originals.figures_of(verdict.claim.source)]


def _verdicts(verdicts: Sequence[Judged], platform: str) -> None:
    """Show links to claims; a claim without any run is shown once, by measured evidence."""
    with_runs = {verdict.id for verdict in verdicts if verdict.machine is not None}
    for verdict in verdicts:
        if verdict.machine is not None or (verdict.id not in with_runs and verdict.evidence == "measured"):
            link(
                "claims",
                f"{verdict_badge(verdict)} {verdict.id}",
                claim=verdict.id,
                evidence=verdict.evidence,
                platform=platform,
            )
            st.caption(verdict.claim.statement)


def _charts(name: str, plan: config.Study, records: SelectedRecords, evidences: Sequence[str], study: Study) -> None:
    """Show our figures of the experiment, as in the report, for these kinds of evidence."""
    shown = plan.experiments[name].shown()
    for kind in shown["shows"] or DRAWINGS:
        summary = _summary(kind, json.dumps(shown["only"]), records, records[1:])
        summary = summary[summary["evidence"].isin(evidences)]
        for label, reasons in gaps_of(kind, summary):
            of = ", ".join(filter(None, (kind.replace("_", " "), label)))
            st.info(markdown(f"Nothing to draw of {of}: {'; '.join(reasons)}."))
        for label, panel in drawable(kind, summary):
            show_figure(stem(name, kind, label), cached_figure(kind, label, panel, study.revision, name))


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Summarising the runs", max_entries=64)
def _summary(kind: str, only: str, _records: SelectedRecords, key: Sequence[object]) -> pd.DataFrame:
    """The summary of the records, cached by `key`: the records without the URL, which may hold a password."""
    return DRAWINGS[kind].summarise(Shown(_records, json.loads(only)))


def _show_sources(name: str, plan: config.Study, records: SelectedRecords, study: Study) -> None:
    """Show links to the runs of a figure, the command that repeats them, and the experiment's definition."""
    st.subheader("Data and method")
    view: dict[str, str | Sequence[str]] = {"experiment": records.experiment, "scale": records.scale}
    view |= {"platform": records.platforms, "evidence": records.evidences}
    only = plan.experiments[name].shown()["only"]
    view |= {factor: str(values[0]) for factor, values in only.items() if len(values) == 1}
    link("runs", "All runs", **view)
    link("explore", "Explore these runs", **view)
    st.markdown("To repeat the experiment, run in the project's folder:")
    show_commands(rerun(name, records.scale))
    st.caption("This measures only what is missing on that machine; `--fresh` measures everything again.")
    with st.expander("Definition of the experiment"):
        _definition(name, plan, records, study)


def _definition(name: str, plan: config.Study, records: SelectedRecords, study: Study) -> None:
    """Show the definition of the runs as stored in the database, and which of them the figure shows."""
    of = (records.experiment, records.scale, records.platforms)
    stored = queries.definition(study.reader(), *of, joined=study.joined) or {}
    st.markdown(f"{plan.experiments[name].question} The figure shows these runs of {records.experiment}:")
    st.json({key: value for key, value in plan.experiments[name].shown().items() if value})
    st.markdown("The grid of the runs:")
    st.json(stored)
    planned: dict[str, Scale] = {scale: scale for scale in SCALES}
    if records.scale in planned:
        now = plan.definition(name, planned[records.scale], str(stored.get("dataset")))
        if sha256_of(now) != sha256_of(stored):
            st.info("config.yaml now has a different definition: its runs are never pooled with these.")


@kept
def _plan(path: Path) -> config.Study:
    """Load config.yaml. Raises BadInput if it is wrong or missing."""
    return config.load_study(path)
