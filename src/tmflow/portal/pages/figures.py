"""The page of the study's figures: the list, and one figure with the results of our runs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from tmflow.analysis.run_table import Shown
from tmflow.analysis.versions import Versions
from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.base.text import listed, markdown, several
from tmflow.charts.figures import DRAWINGS, TIME_TO_ACCURACY, drawable, drawing_of, figure_of
from tmflow.charts.thumbnails import thumbnail
from tmflow.claims.originals import Originals, experiment_of
from tmflow.claims.origins import KINDS, Judged
from tmflow.claims.render import accepted_verdicts
from tmflow.claims.schema import CANNOT_BE_TESTED, load_claims
from tmflow.claims.verdict import UNTESTED
from tmflow.portal.badges import badge, count_badges, load_verdicts, show_claim
from tmflow.portal.figure_view import show_summary
from tmflow.portal.filter_widgets import choose, choose_target
from tmflow.portal.links import halves, link, show_commands
from tmflow.portal.study_data import Identity, SelectedRecords, Study, planned_study
from tmflow.portal.url_state import PLATFORM, Key, ValueFilter, ValuesFilter
from tmflow.store import queries
from tmflow.study import config
from tmflow.study.campaign import rerun
from tmflow.study.config import SCALES, Scale

OF = (PLATFORM, ValueFilter(Key.SCALE, "Scale"), ValuesFilter(Key.EVIDENCE, "Evidence"))


def show_list(originals: Originals, study: Study) -> None:
    """Show a link for each figure, with the verdicts on its finding."""
    platform = choose([PLATFORM], study.counts, study.platform_names, defaults=study.first).one(Key.PLATFORM)
    verdicts = accepted_verdicts(load_verdicts(study, platform))
    st.caption(
        f"The study: {originals.study.citation()}. Each figure has the verdicts of this platform's runs on its "
        "finding. Open a figure for its charts."
    )
    pictures = {}
    for column, part in zip(st.columns(2), halves(list(originals.figures.items())), strict=True):
        with column:
            for number, original in part:
                left, words = st.columns([1, 3])
                pictures[number] = left.empty()
                of_figure = [one for one in verdicts if number in originals.figures_of_claim(one.claim)]
                with_runs = [verdict for verdict in of_figure if verdict.machine is not None]
                cannot = bool(of_figure) and all(verdict.finding.verdict == CANNOT_BE_TESTED for verdict in of_figure)
                badges = count_badges(with_runs) or badge(CANNOT_BE_TESTED if cannot else UNTESTED)
                with words:
                    link("figures", f"**Figure {number}**: {original.title}", figure=number, platform=platform)
                    st.markdown(f":small[:gray[{original.finding}]] {badges}")
    st.subheader("Conclusions of the study")
    st.markdown(originals.conclusions)
    of_study = [verdict for verdict in verdicts if verdict.claim.report == "2017 study"]
    _verdicts([verdict for verdict in of_study if not originals.figures_of_claim(verdict.claim)], platform)
    for number, picture in pictures.items():  # last, because drawing takes longest
        if drawn := _thumbnail(number, study, platform):
            picture.image(drawn, caption=f"Our runs: figure {number}")


def _thumbnail(number: str, study: Study, platform: str) -> str | None:
    """The first chart of a figure that the runs of a platform at full scale can draw, as SVG; None without one."""
    name = experiment_of(number)
    try:
        plan = planned_study(project_root() / "config.yaml")
    except BadInput:  # the page of the figure gives the reason
        return None
    if name not in plan.experiments:
        return None
    records = study.records(plan.source(name), "full", [platform], KINDS)
    return _draw_thumbnail(name, json.dumps(plan.experiments[name].shown()), records, records.key)


# Shared by all sessions: no caller modifies a picture.
@st.cache_resource(max_entries=128, show_spinner=False)
def _draw_thumbnail(name: str, shown: str, _records: SelectedRecords, key: Identity) -> str | None:
    of = json.loads(shown)
    for kind in of["shows"] or DRAWINGS:
        summary = _summary(kind, None, json.dumps(of["only"]), _records, key)
        for label, panel in drawable(kind, summary):
            return thumbnail(figure_of(label, panel, "", name).drawn)
    return None


def show_detail(number: str, originals: Originals, study: Study) -> None:
    """Show one figure: the finding of the study, the verdicts, our charts, and their sources."""
    _show_original(number, originals)
    name = experiment_of(number)
    try:
        plan = planned_study(project_root() / "config.yaml")
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
    claims = [key for key, claim in load_claims().claims.items() if number in originals.figures_of_claim(claim)]
    _verdicts(accepted_verdicts(load_verdicts(study, platform, claims)), platform)
    evidences = selected.chosen[Key.EVIDENCE] or selected.options[Key.EVIDENCE]
    shown = plan.experiments[name].shown()
    records = study.choose_records(plan.source(name), scale, [platform], selected.options[Key.EVIDENCE])
    published = originals.published_by(name)
    kinds = shown["shows"] or list(DRAWINGS)
    target = choose_target() if TIME_TO_ACCURACY in kinds and len(records.curves) else None
    for kind in kinds:
        summary = _summary(kind, target, json.dumps(shown["only"]), records, records.key)
        show_summary(kind, summary[summary["evidence"].isin(evidences)], study.revision, name, published(kind))
    _show_sources(name, plan, scale, platform, evidences, records.versions, study)


def _show_original(number: str, originals: Originals) -> None:
    """Show the configuration and the finding of the original figure, and what its text leaves open."""
    original = originals.figures[number]
    st.markdown(f"{original.title}. **The study found:** {original.finding}")
    values = {
        "batch": original.batch, "pixels": original.matrix, "iterations": original.iterations,
        "contention manager": original.manager, "setting of glibc's elision": original.tunables,
    }  # fmt: skip
    parts = [f"{name} {value}" for name, value in values.items() if value is not None]
    lines = [
        f"Figure {number} of the study ({original.caption}): {original.platform}, {original.model}, "
        f"{', '.join(parts)}.",
        f"{original.platform}: {originals.machines[original.platform]}",
    ]
    if assumptions := originals.assumptions(number):
        lines.insert(1, f"Its text does not state {listed(assumptions)}: the values of config.yaml are assumptions.")
    st.caption("  \n".join(lines))


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


def _verdicts(verdicts: Sequence[Judged], platform: str) -> None:
    """Show links to claims, and fold those that the runs do not decide. A claim without runs is shown once."""
    with_runs = {verdict.id for verdict in verdicts if verdict.machine is not None}
    undecided = []
    for verdict in verdicts:
        if verdict.machine is None and (verdict.id in with_runs or verdict.evidence != "measured"):
            continue
        if verdict.finding.verdict in (UNTESTED, CANNOT_BE_TESTED):
            undecided.append(verdict)
        else:
            show_claim(verdict, platform)
    if undecided:
        with st.expander(f"{several(len(undecided), 'claim')} that these runs do not decide {count_badges(undecided)}"):
            for verdict in undecided:
                show_claim(verdict, platform)


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Summarising the runs", max_entries=64)
def _summary(kind: str, target: float | None, only: str, _records: SelectedRecords, key: Identity) -> pd.DataFrame:
    return drawing_of(kind, target).summarise(Shown(_records, json.loads(only)))


def _show_sources(
    name: str,
    plan: config.Study,
    scale: str,
    platform: str,
    evidences: Sequence[str],
    versions: Versions,
    study: Study,
) -> None:
    """Show links to the runs of a figure, the command that repeats them, and the experiment's definition."""
    experiment, source = plan.experiments[name], plan.source(name)
    st.subheader("Data and method")
    view = {"experiment": source, "scale": scale, "platform": platform}
    view |= {factor: str(values[0]) for factor, values in experiment.shown()["only"].items() if len(values) == 1}
    link("runs", "All runs", evidence=evidences, **view)
    link("explore", "Explore these runs", evidence=evidences, versions="all" if versions == "all" else "", **view)
    st.markdown("To repeat the experiment, run in the project's folder:")
    show_commands(rerun(name, scale))
    st.caption("This measures only what is missing on that machine; `--fresh` measures everything again.")
    with st.expander("Definition of the experiment"):
        stored = queries.definition(study.reader(), source, scale, (platform,), joined=study.joined) or {}
        st.markdown(f"{experiment.question} The figure shows these runs of {source}:")
        st.json({key: value for key, value in experiment.shown().items() if value})
        st.markdown("The grid of the runs:")
        st.json(stored)
        planned: dict[str, Scale] = {scale: scale for scale in SCALES}
        if scale in planned:
            now = plan.definition(name, planned[scale], str(stored.get("dataset")))
            if sha256_of(now) != sha256_of(stored):
                st.info("config.yaml now has a different definition: its runs are never pooled with these.")
