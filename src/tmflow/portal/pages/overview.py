"""The parts of the overview: the finding, the answers, the scoreboard, the available data."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tmflow.base.text import listed, markdown, several
from tmflow.charts import dot_plots
from tmflow.charts.figures import slug
from tmflow.claims.origins import KINDS
from tmflow.claims.render import VERDICTS, accepted_verdicts, count_findings, heading, without_runs
from tmflow.claims.schema import load_claims
from tmflow.native.registry import consistency_by_strategy
from tmflow.platform.facts import is_local, slug_of
from tmflow.portal.badges import badge, count_by_status, load_verdicts, show_claim
from tmflow.portal.figure_view import show_frame, show_numbers
from tmflow.portal.filter_widgets import choose
from tmflow.portal.links import link
from tmflow.portal.study_data import Identity, Study, experiment_titles
from tmflow.portal.url_state import PLATFORM, Defaults, Key
from tmflow.reports import findings
from tmflow.reports.answers import Answer, ask

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
    """The key of the platform for the answers: that of the URL, else this machine if it has results at full scale.

    Of several contributions of this machine it is the first of `measured_platforms`. Otherwise it is the first of all,
    a contributed one only if there is no other, and the page says so. Platforms without measured results cannot be
    chosen, unless no platform has any.
    """
    counts = study.counts
    scales = findings.measured_platforms(counts)
    table = counts[counts["platform"].isin(scales)] if scales else counts
    names = {
        key: f"{name} (quick runs)" if scales.get(key) == "quick" else name
        for key, name in study.platform_names.items()
    }
    in_full = [key for key in study.of_this_machine if scales.get(key) == "full"]
    local_first = sorted(scales, key=lambda key: (scales[key] != "full", not is_local(key)))
    first: Defaults = {Key.PLATFORM: [*in_full, *local_first]}
    platform = choose([PLATFORM], table, names, defaults=first).one(Key.PLATFORM)
    if scales.get(platform) == "quick":
        st.info("This platform has only runs of quick scale, which are not conclusive; `make study` measures in full.")
    elif in_full and slug_of(platform) != slug_of(in_full[0]):
        st.info("This machine has results here, too: choose them above.")
    elif not in_full:
        held = counts[counts["platform"] == study.here]
        st.info(f"{_describe_held_runs(held)} The results below are from **{markdown(names[platform])}**.")
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


def show_answers(study: Study, platform: str) -> None:
    """Show the three answers, side by side if there is room."""
    with st.container(horizontal=True):
        for answer in _answers(study, study.state(platform=platform), platform, experiment_titles()):
            with st.container(border=True, width=CARD):
                _show_answer(answer, platform, study)


# Shared by all sessions: no caller modifies an answer. It is valid for every revision with the same runs.
@st.cache_resource(show_spinner="Looking for the answers", max_entries=22)
def _answers(_study: Study, state: Identity, platform: str, titles: dict[str, str]) -> tuple[Answer, ...]:
    return ask(_study.reader(), platform, _study.revision, consistency_by_strategy(), titles, joined=_study.joined)


def _show_answer(answer: Answer, platform: str, study: Study) -> None:
    st.markdown(f"#### {answer.question}\n**{markdown(answer.short)}**")
    if answer.setting:
        st.caption(markdown(answer.setting))
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
            link("claims", load_claims().claims[claim].statement, claim=claim, platform=platform)
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
        again = len(of_kind) - counted.total()
        with st.expander(f"Which of the {len(of_kind)} claims"):
            if again:
                st.caption(f"{again} of them restate another, and are not counted above.")
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
    if "experiment" in table:
        table["experiment"] = table["experiment"].replace(experiment_titles())
    show_frame(table, alt, height="auto")
