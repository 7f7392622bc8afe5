"""The index of the study's figures, and one of them with all that our runs say of it."""

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
from tmflow.claims.render import accepted
from tmflow.claims.schema import load_claims
from tmflow.portal.badges import badge, judged, marked
from tmflow.portal.figure_view import kept_figure, show_figure
from tmflow.portal.links import halves, link, show_commands
from tmflow.portal.study_data import SelectedRecords, Study
from tmflow.portal.url_state import PLATFORM, Filter, Key, choose
from tmflow.store import queries
from tmflow.study import config
from tmflow.study.commands import rerun
from tmflow.study.config import SCALES, Scale
from tmflow.study.figure_selection import Shown

UNKNOWN = "not known to us"
OF = [
    PLATFORM,
    Filter(Key.SCALE, "Scale"),
    Filter(Key.EVIDENCE, "Evidence", several=True, with_all=True),
]


def index(originals: Originals, study: Study) -> None:
    """A link for each figure, with the verdicts on what it found."""
    platform = choose(OF[:1], study.counts, study.platform_names, defaults=study.first).one(Key.PLATFORM)
    verdicts = accepted(judged(study, platform))
    st.caption("Each with the verdicts of this platform's runs on what it found; open one for its charts.")
    for column, part in zip(st.columns(2), halves(list(originals.figures.items())), strict=True):
        with column:
            for number, its in part:
                spoken = [its for its in _of_figure(number, originals, verdicts) if its.machine is not None]
                link("figures", f"**Figure {number}**", figure=number, platform=platform)
                badges = " ".join(map(marked, spoken)) or badge("untested")
                st.markdown(f"{its.title} {badges}  \n:small[:gray[{its.finding}]]")
    st.subheader("What the study concluded")
    st.markdown(originals.conclusions)
    _verdicts([verdict for verdict in verdicts if not originals.named(verdict.claim.source)], platform)


def detail(number: str, originals: Originals, study: Study) -> None:
    """One figure: what the study found, the verdicts on it, our charts, and what is behind them."""
    _found(number, originals)
    name = experiment_of(number)
    try:
        plan = _plan(project_root() / "config.yaml")
        if name not in plan.experiments:
            raise BadInput(f"config.yaml has no experiment {name}, which would repeat this figure.")
    except BadInput as error:
        st.error(markdown(error))
        return
    held = study.counts[study.counts["experiment"] == plan.source(name)]
    if held.empty:
        _neighbours(number, originals)
        st.info(f"There are no runs of figure {number} here. In the project's folder, this makes them:")
        show_commands(rerun(name))
        return
    selected = choose(OF, held, study.platform_names, defaults=study.first)
    platform, scale = selected.one(Key.PLATFORM), selected.one(Key.SCALE)
    _neighbours(number, originals, platform=platform)
    claims = [claim for claim, its in load_claims().claims.items() if number in originals.named(its.source)]
    _verdicts(accepted(judged(study, platform, claims)), platform)
    held = held[(held["platform"] == platform) & (held["scale"] == scale)]
    records = study.records(plan.source(name), scale, [platform], sorted(held["evidence"].unique()))
    evidences = selected.chosen[Key.EVIDENCE] or tuple(selected.options[Key.EVIDENCE])
    _charts(name, plan, records, evidences, study)
    _behind(name, plan, records._replace(evidences=evidences), study)


def _found(number: str, originals: Originals) -> None:
    """What the study had and found."""
    its = originals.figures[number]
    st.markdown(f"{its.title}. **The study found:** {its.finding}")
    known = {"pixels": its.matrix, "iterations": its.iterations}
    told = [f"{name} {UNKNOWN if value is None else value}" for name, value in known.items()]
    st.caption(f"The study's: {its.platform}, {its.model}, batch {its.batch}, {', '.join(told)}.")


def _neighbours(number: str, originals: Originals, **view: str) -> None:
    """Links to the figure before, to all of them, and to the next."""
    numbers = list(originals.figures)
    place = numbers.index(number)
    with st.container(horizontal=True):
        for other in numbers[max(place - 1, 0) : place]:
            link("figures", f"← {other}", figure=other, **view)
        link("figures", "All figures", **view)
        for other in numbers[place + 1 : place + 2]:
            link("figures", f"{other} →", figure=other, **view)


def _of_figure(number: str, originals: Originals, verdicts: Iterable[Judged]) -> list[Judged]:
    """The verdicts on what a figure is the source of."""
    return [verdict for verdict in verdicts if number in originals.named(verdict.claim.source)]


def _verdicts(verdicts: Sequence[Judged], platform: str) -> None:
    """Links to claims; of one without any run, by measured ones, that are missing."""
    spoken = {its.id for its in verdicts if its.machine is not None}
    for its in verdicts:
        if its.machine is not None or (its.id not in spoken and its.evidence == "measured"):
            link("claims", f"{marked(its)} {its.id}", claim=its.id, evidence=its.evidence, platform=platform)
            st.caption(its.claim.statement)


def _charts(name: str, plan: config.Study, records: SelectedRecords, evidences: Sequence[str], study: Study) -> None:
    """Our figures of it, as the report draws them; of these kinds of evidence, of which the records are."""
    shown = plan.experiments[name].shown()
    for kind in shown["shows"] or DRAWINGS:
        summary = _summary(kind, json.dumps(shown["only"]), records, records[1:])
        summary = summary[summary["evidence"].isin(evidences)]
        for label, reasons in gaps_of(kind, summary):
            of = ", ".join(filter(None, (kind.replace("_", " "), label)))
            st.info(markdown(f"Nothing to draw of {of}: {'; '.join(reasons)}."))
        for label, panel in drawable(kind, summary):
            show_figure(stem(name, kind, label), kept_figure(kind, label, panel, study.revision, name))


# Kept as it is, for all sessions: nobody changes a table.
@st.cache_resource(show_spinner="Summing up the runs", max_entries=64)
def _summary(kind: str, only: str, _records: SelectedRecords, key: Sequence[object]) -> pd.DataFrame:
    """`key` is what tells the records from others, their database's URL aside: it may hold a password."""
    return DRAWINGS[kind].summarise(Shown(_records, json.loads(only)))


def _behind(name: str, plan: config.Study, records: SelectedRecords, study: Study) -> None:
    """The runs behind a figure, the command that runs them again, and the exact experiment."""
    st.subheader("Behind it")
    view: dict[str, str | Sequence[str]] = {"experiment": records.experiment, "scale": records.scale}
    view |= {"platform": records.platforms, "evidence": records.evidences}
    only = plan.experiments[name].shown()["only"]
    view |= {factor: str(values[0]) for factor, values in only.items() if len(values) == 1}
    link("runs", "Every run of it", **view)
    link("explore", "Its runs by other measures and factors", **view)
    st.markdown("Run it again, in the project's folder:")
    show_commands(rerun(name, records.scale))
    st.caption("It measures what that machine has not measured yet; with `--fresh`, all of it anew.")
    with st.expander("The exact experiment"):
        _definition(name, plan, records, study)


def _definition(name: str, plan: config.Study, records: SelectedRecords, study: Study) -> None:
    """What the runs were made by, as the database has it, and which of them the figure shows."""
    of = (records.experiment, records.scale, records.platforms)
    stored = queries.definition(study.reader(), *of, joined=study.joined) or {}
    st.markdown(f"{plan.experiments[name].question} Of the runs of {records.experiment} it shows:")
    st.json({key: value for key, value in plan.experiments[name].shown().items() if value})
    st.markdown("Those runs are of this grid:")
    st.json(stored)
    planned: dict[str, Scale] = {scale: scale for scale in SCALES}
    if records.scale in planned:
        now = plan.definition(name, planned[records.scale], str(stored.get("dataset")))
        if sha256_of(now) != sha256_of(stored):
            st.info("config.yaml defines it otherwise by now: what it makes is never pooled with these runs.")


@kept
def _plan(path: Path) -> config.Study:
    """config.yaml as it stands. Raises BadInput where it is wrong, or not there."""
    return config.load_study(path)
