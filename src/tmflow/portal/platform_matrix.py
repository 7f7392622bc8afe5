"""The matrix of platforms, for the overview and the page Platforms: what strategies gain on each, for one model."""

from __future__ import annotations

import json
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from tmflow.base.text import listed, markdown, several
from tmflow.claims.render import accepted_verdicts, count_findings
from tmflow.claims.verdict import Verdict
from tmflow.native.registry import consistency_by_strategy
from tmflow.portal.badges import load_verdicts
from tmflow.portal.figure_view import show_frame
from tmflow.portal.filter_widgets import choose
from tmflow.portal.links import download, with_sources
from tmflow.portal.study_data import Identity, Study, experiment_titles
from tmflow.portal.url_state import Choice, Key
from tmflow.reports import findings
from tmflow.reports.findings import Finding
from tmflow.reports.site.json_files import FINDINGS, findings_document
from tmflow.store import platform_queries

MODEL = Choice(Key.MODEL, "Model", tuple(findings.SOURCES))
MOST = 12  # platforms: each takes some 50 ms when it is read first
VERDICTS = "claims"
NAME, LINK, DECIDED = 168, 52, 104  # px: with them the table fits on a screen of 1440 px


class Matrix(NamedTuple):
    """The findings of the first of `measured_platforms`, the names of those without one, and the number left out."""

    findings: list[Finding]
    without: list[str]
    left_out: int


def choose_model(study: Study) -> str:
    """Show the choice of the model."""
    return choose([MODEL], study.counts).one(Key.MODEL)


def load_matrix(study: Study, model: str) -> Matrix:
    """The findings on a model, of the first of `measured_platforms`."""
    scales = findings.measured_platforms(study.counts)
    with_finding, without = [], []
    for platform in [*scales][:MOST]:
        if finding := load_finding(study, platform, model):
            with_finding.append(finding)
        else:
            without.append(study.platform_names[platform])
    return Matrix(with_finding, without, max(0, len(scales) - MOST))


def load_finding(study: Study, platform: str, model: str) -> Finding | None:
    """The finding on a model for a platform, by its key; None if it has measured nothing, or compared nothing."""
    scale = findings.measured_platforms(study.counts).get(platform)
    return None if scale is None else _finding(study, study.state(platform=platform), platform, scale, model)


# Valid for every revision with the same runs of the platform; shared by all sessions, because nobody modifies it.
@st.cache_resource(show_spinner="Reading the runs", max_entries=64)
def _finding(_study: Study, state: Identity, platform: str, scale: str, model: str) -> Finding | None:
    reader = _study.reader()
    return findings.find(reader, platform, scale, model, consistency_by_strategy(), joined=_study.joined)


def show_finding(study: Study, platform: str) -> None:
    """Show what the runs of a platform say, in one sentence: of the first model that they say anything of."""
    for model in findings.SOURCES:
        if finding := load_finding(study, platform, model):
            st.markdown(f"**{markdown(findings.sentence(finding))}**")
            sources = markdown(findings.sources(finding, experiment_titles()))
            st.caption(f"Sources: {sources}. Brackets are 95 % intervals over rounds.")
            return
    st.markdown("**No run of this platform compares strategies with two or more workers.** `make study` does.")


def machines(study: Study) -> pd.DataFrame:
    """The platforms with their facts: see `platform_queries.platforms`."""
    return _machines(study, study.identity, study.joined)


@st.cache_data(show_spinner=False, max_entries=4)
def _machines(_study: Study, identity: Identity, joined: bool) -> pd.DataFrame:
    return platform_queries.platforms(_study.reader(), joined=joined)


def show_matrix(study: Study, model: str, *, judged: bool) -> None:
    """Show a row for each platform, with links; `judged`: with the verdicts on the claims, which take longest."""
    loaded = load_matrix(study, model)
    if not loaded.findings:
        st.info(f"No platform has compared strategies with two or more workers for {model}; `make study` does.")
        return
    table = findings.matrix(loaded.findings, machines(study))
    verdicts = {VERDICTS: [count_verdicts(study, key) if judged else "…" for key in table["platform"]]}
    links = [f"platforms?{urlencode(with_sources({str(Key.PLATFORM): key}))}" for key in table["platform"]]
    shown = table.assign(**verdicts, platform=table["platform_name"]).drop(columns="platform_name")
    shown.insert(1, "open", links)  # at the end it is out of sight
    show_frame(
        shown,
        "Speed of each kind of strategy over a lock, by platform",
        column_config={
            "platform": st.column_config.TextColumn(width=NAME),
            VERDICTS: st.column_config.TextColumn(width=DECIDED),
            "open": st.column_config.LinkColumn("", display_text="open", width=LINK),
        },
    )
    document = partial(json.dumps, findings_document(loaded.findings), allow_nan=False)
    download("JSON", document, FINDINGS, key=f"JSON, judged: {judged}")
    show_notes(loaded, model)


def show_notes(loaded: Matrix, model: str) -> None:
    """Show the medians over the platforms, what the numbers are, and which platforms have none."""
    medians = [f"{title} {text}" for title, text in findings.medians(loaded.findings).items()]
    notes = [
        f"**Median over machines**: {'; '.join(medians)}." if medians else "",
        "Speed over that of a lock with as many workers: the most that have a hardware thread each. Lossless: the "
        "fastest other strategy that loses no update. Lost updates are those of `nolock` in a workload of little more "
        "than updates. TM: the hardware transactions that the processor reports.",
        f"No comparison for {model}: {markdown(listed(loaded.without))}." if loaded.without else "",
        f"{several(loaded.left_out, 'platform')} with fewer runs are left out." if loaded.left_out else "",
    ]
    st.caption("  \n".join(filter(None, notes)))


def count_verdicts(study: Study, platform: str) -> str:
    """Count the decided claims by measured runs of a platform, such as "6 hold, 1 not"; the page Claims has all."""
    judged = accepted_verdicts(load_verdicts(study, platform))
    counted = count_findings([verdict for verdict in judged if verdict.evidence == "measured"])
    words: dict[Verdict, str] = {"holds here": "hold", "does not hold here": "not", "inconclusive": "open"}
    decided = ", ".join(f"{counted[verdict]} {word}" for verdict, word in words.items() if counted[verdict])
    return decided or "none decided"
