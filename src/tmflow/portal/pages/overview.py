"""The parts of the overview: the finding, the matrix of platforms, the answers, the scoreboard, the available data."""

from __future__ import annotations

import json

import pandas as pd
import streamlit as st

from tmflow.base.text import listed, markdown, several
from tmflow.charts import dot_plots
from tmflow.charts.figures import slug
from tmflow.claims.origins import KINDS
from tmflow.claims.render import VERDICTS, accepted_verdicts, count_findings, heading, without_runs
from tmflow.native.registry import consistency_by_strategy
from tmflow.platform.facts import slug_of
from tmflow.portal.badges import badge, count_by_status, load_verdicts, show_claim
from tmflow.portal.figure_view import show_frame, show_numbers
from tmflow.portal.filter_widgets import choose
from tmflow.portal.links import download, link
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import PLATFORM, Choice, Key
from tmflow.reports import findings
from tmflow.reports.answers import Answer, ask
from tmflow.reports.findings import Finding
from tmflow.reports.site.json_files import FINDINGS, findings_document

MODEL = Choice("model", "Model", tuple(findings.SOURCES))
IN_MATRIX = 12  # platforms: each takes some 50 ms when it is read first
CARD = 415  # px: three fit side by side on a wide screen
WHERE = ["platform_name", "evidence", "scale"]


def show_scale_warning(counts: pd.DataFrame) -> None:
    """Warn about quick scale, and about a database without results."""
    if "ok" not in set(counts["status"]):
        st.warning("**No run here has a result**: every run failed or could not run. The page Runs gives the reasons.")
    elif "full" not in set(counts["scale"]):
        st.warning(
            "**Quick scale.** All data comes from `make quick` or from ad hoc runs: a smoke test with few rounds and "
            "steps. The results are not conclusive; `make study` runs the full study."
        )
    elif "quick" in set(counts["scale"]):
        st.info("Some runs are of **quick scale**: smoke tests, which are kept separate from the other runs.")


def choose_platform(study: Study) -> str:
    """The key of the platform for the answers: that of the URL, else this machine if it has suitable runs.

    Otherwise it is the platform with the most suitable runs, and the page says so.
    """
    counts = study.counts
    of_answers = counts[(counts["evidence"] == "measured") & (counts["scale"] == "full")]
    table = counts if of_answers.empty else of_answers
    platform = choose([PLATFORM], table, study.platform_names, defaults=study.first).one(Key.PLATFORM)
    if study.here not in set(table["platform"]):
        held = counts[counts["platform"] == study.here]
        name = markdown(study.platform_names[platform])
        st.info(f"{_describe_held_runs(held)} The results below are from **{name}**.")
        if not held.empty:
            link("runs", "Runs of this machine", platform=str(study.here))
    return platform


def _describe_held_runs(held: pd.DataFrame) -> str:
    """Describe the runs of this machine, none of them measured at full scale, and how to measure such runs."""
    if held.empty:
        return "This machine has no runs here."
    kinds = held.groupby(["scale", "evidence"], as_index=False)["n_runs"].sum()
    counts = zip(kinds["n_runs"], kinds["evidence"], kinds["scale"], strict=True)
    numbers = listed([f"{several(n, f'{evidence} run')} at {scale} scale" for n, evidence, scale in counts])
    return (
        f"This machine has no measured runs at full scale yet, only {numbers}, which the page Runs lists; "
        "`make study` measures at full scale."
    )


def show_finding(study: Study, platform: str) -> None:
    """Show what the runs of a platform say, in one sentence: of the first model that they say anything of."""
    for model in findings.SOURCES:
        if finding := _finding(study, study.state(platform=platform), platform, model):
            st.markdown(f"**{markdown(findings.sentence(finding))}**")
            st.caption(f"Sources: {markdown(findings.sources(finding))}. Brackets are 95 % intervals over rounds.")
            return


def show_matrix(study: Study) -> None:
    """Show a table with a row for each platform, of the model that the reader chooses."""
    model = choose([MODEL], study.counts, {}).one(MODEL.key)
    platforms = findings.measured_platforms(study.counts)
    shown = [
        finding
        for platform in platforms[:IN_MATRIX]
        if (finding := _finding(study, study.state(platform=platform), platform, model))
    ]
    if not shown:
        st.info(f"No platform has compared strategies with two or more workers for {model}; `make study` does.")
        return
    table = findings.matrix(shown).drop(columns="platform").rename(columns={"platform_name": "platform"})
    narrow = {"platform": st.column_config.TextColumn(width="medium")}
    show_frame(table, "Speed of each kind of strategy over a lock, by platform", column_config=narrow)
    download("JSON", lambda: json.dumps(findings_document(shown), allow_nan=False), FINDINGS)
    left_out = len(platforms) - IN_MATRIX
    st.caption(
        "Speed over that of a lock with as many workers: the most that have a hardware thread each. Lost updates are "
        "those of `nolock` in true-contention, a workload of almost nothing but updates."
        + (f" {several(left_out, 'platform')} with fewer runs are left out." if left_out > 0 else "")
    )


# Valid for every revision with the same runs of the platform; shared by all sessions, because nobody modifies it.
@st.cache_resource(show_spinner="Reading the runs", max_entries=64)
def _finding(_study: Study, state: Identity, platform: str, model: str) -> Finding | None:
    of_platform = findings.find(_study.reader(), [platform], model, consistency_by_strategy(), joined=_study.joined)
    return of_platform[0] if of_platform else None


def show_answers(study: Study, platform: str) -> None:
    """Show the three answers, side by side if there is room."""
    with st.container(horizontal=True):
        for answer in _answers(study, study.state(platform=platform), platform):
            with st.container(border=True, width=CARD):
                _show_answer(answer, platform, study)


# Shared by all sessions: no caller modifies an answer. It is valid for every revision with the same runs.
@st.cache_resource(show_spinner="Looking for the answers", max_entries=22)
def _answers(_study: Study, state: Identity, platform: str) -> tuple[Answer, ...]:
    return ask(_study.reader(), platform, _study.revision, consistency_by_strategy(), joined=_study.joined)


def _show_answer(answer: Answer, platform: str, study: Study) -> None:
    st.markdown(f"#### {answer.question}\n**{markdown(answer.short)}**")
    figure = answer.figure and answer.figure.at(study.revision)
    if figure:
        st.vega_lite_chart(figure.drawn, width="stretch", height=dot_plots.height(figure.summary))
    st.markdown("\n".join(f"- {markdown(sentence)}" for sentence in answer.sentences))
    st.caption(markdown(answer.rests_on))
    with st.container(horizontal=True):
        if figure:
            first = figure.summary.iloc[0]
            page = "explore" if first["definition_sha256"] == _newest_definition(study.counts, first) else "runs"
            link(page, "The runs", **answer.view)
        for claim in answer.claims:
            link("claims", claim, claim=claim, platform=platform)
    if figure:
        with st.expander("Numbers and downloads"):
            show_numbers(slug("answer", str(figure.summary["experiment"].iloc[0])), figure)


def _newest_definition(counts: pd.DataFrame, run: pd.Series) -> str:
    """The definition of a run's experiment that ran last on its platform, which the page Explore shows."""
    of = ["experiment", "scale", "platform"]
    same = counts[(counts[of] == run[of]).all(axis="columns")]
    return str(same.sort_values("newest_run_utc")["definition_sha256"].iloc[-1])


@st.fragment
def show_scoreboard(study: Study, platform: str) -> None:
    """Show the number of claims with each verdict on a platform, by kind of evidence, with links."""
    st.caption(markdown(heading(study.reader(), platform, joined=study.joined)))
    taken = accepted_verdicts(load_verdicts(study, platform))
    without = without_runs(taken)
    for kind in KINDS:
        of_kind = [verdict for verdict in taken if verdict.evidence == kind]
        if not of_kind or kind in without:
            continue
        counted = count_findings(of_kind)
        badges = " ".join(badge(name, f" {counted[name]}") for name in VERDICTS if counted[name])
        st.markdown(f"**{kind.capitalize()}** {badges}")
        with st.expander(f"Which of the {len(of_kind)} claims"):
            for verdict in sorted(of_kind, key=lambda verdict: VERDICTS.index(verdict.finding.verdict)):
                show_claim(verdict, platform)


def show_holdings(counts: pd.DataFrame) -> None:
    """Show the numbers of runs by platform, evidence and scale; folded, by experiment."""
    totals = {
        "Platforms": counts["platform"].map(slug_of).nunique(),
        "Experiments": counts["experiment"].nunique(),
        "Runs": counts["n_runs"].sum(),
        "Without result": counts.loc[counts["status"] != "ok", "n_runs"].sum(),
    }
    with st.container(horizontal=True):
        for label, value in totals.items():
            st.metric(label, f"{value:,}", border=True, width=150)
    _show_counts(counts, WHERE, "Runs by platform, evidence, scale, status")
    _show_by_experiment(counts)


@st.fragment
def _show_by_experiment(counts: pd.DataFrame) -> None:
    """Show the numbers by experiment on demand, because the table may have thousands of rows."""
    if st.toggle("By experiment"):
        _show_counts(counts, ["experiment", *WHERE], "Runs by experiment, platform, evidence, scale and status")


def _show_counts(counts: pd.DataFrame, where: list[str], alt: str) -> None:
    table = count_by_status(counts, where).rename(columns={"platform_name": "platform"})
    show_frame(table, alt, height="auto")
