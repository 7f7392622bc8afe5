"""The parts of the overview: the three answers, the scoreboard of claims, and the available data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd
import streamlit as st
from sqlalchemy import URL

from tmflow.base.escaping import markdown
from tmflow.charts import forest
from tmflow.charts.figures import slug
from tmflow.claims.heading import heading
from tmflow.claims.judge import KINDS
from tmflow.claims.render import VERDICTS, accepted_verdicts, without_runs
from tmflow.native.registry import promises_of_updates
from tmflow.platform.key import slug_of
from tmflow.portal.badges import badge, count_by_status, load_verdicts, verdict_badge
from tmflow.portal.figure_view import show_numbers
from tmflow.portal.links import link
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import PLATFORM, Key, choose
from tmflow.reports.answers import Answer, ask
from tmflow.store import engine

CARD = 415  # px: three fit side by side on a wide screen
NAMES = {"platform_name": "platform"}
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
    could = counts[(counts["evidence"] == "measured") & (counts["scale"] == "full")]
    table = counts if could.empty else could
    platform = choose([PLATFORM], table, study.platform_names, defaults=study.first).one(Key.PLATFORM)
    if study.here not in set(table["platform"]):
        name = markdown(study.platform_names[platform])
        st.info(
            f"This machine has no {'' if could.empty else 'measured '}runs here. The results below are from **{name}**."
        )
    return platform


def show_answers(study: Study, platform: str) -> None:
    """Show the three answers, side by side if there is room."""
    with st.container(horizontal=True):
        for answer in _answers(study.url, study.state(platform=platform), platform, study.revision, study.joined):
            with st.container(border=True, width=CARD):
                figure = answer.figure and answer.figure.at(study.revision)
                _show_answer(answer._replace(figure=figure), platform, study.counts)


# Shared by all sessions: no caller modifies an answer. It is valid for every revision with the same runs.
@st.cache_resource(show_spinner="Looking for the answers", max_entries=22)
def _answers(_url: URL, state: Identity, platform: str, _revision: str, joined: bool) -> tuple[Answer, ...]:
    return ask(engine.open_reader(_url), platform, _revision, promises_of_updates(), joined=joined)


def _show_answer(answer: Answer, platform: str, counts: pd.DataFrame) -> None:
    st.markdown(f"#### {answer.question}\n**{markdown(answer.short)}**")
    if answer.figure is not None:
        st.vega_lite_chart(answer.figure.drawn, width="stretch", height=forest.height(answer.figure.summary))
    st.markdown("\n".join(f"- {markdown(sentence)}" for sentence in answer.sentences))
    st.caption(markdown(answer.rests_on))
    with st.container(horizontal=True):
        if answer.figure is not None:
            first = answer.figure.summary.iloc[0]
            page = "explore" if first["definition_sha256"] == newest_definition(counts, first) else "runs"
            link(page, "The runs", **answer.view)
        for claim in answer.claims:
            link("claims", claim, claim=claim, platform=platform)
    if answer.figure is not None:
        with st.expander("Numbers and downloads"):
            show_numbers(slug("answer", str(answer.figure.summary["experiment"].iloc[0])), answer.figure)


def newest_definition(counts: pd.DataFrame, run: pd.Series) -> str:
    """The definition of a run's experiment that ran last on its platform, which the page Explore shows."""
    same = [counts[name] == run[name] for name in ("experiment", "scale", "platform")]
    of_experiment = counts[same[0] & same[1] & same[2]]
    return str(of_experiment.sort_values("newest_run_utc")["definition_sha256"].iloc[-1])


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
        counted = Counter(verdict.finding.verdict for verdict in of_kind)
        badges = " ".join(badge(name, f" {counted[name]}") for name in VERDICTS if counted[name])
        st.markdown(f"**{kind.capitalize()}** {badges}")
        with st.expander(f"Which of the {len(of_kind)} claims"):
            for verdict in sorted(of_kind, key=lambda verdict: VERDICTS.index(verdict.finding.verdict)):
                link(
                    "claims",
                    f"{verdict_badge(verdict)} {verdict.id}",
                    claim=verdict.id,
                    evidence=verdict.evidence,
                    platform=platform,
                )
                st.caption(verdict.claim.statement)


def show_holdings(counts: pd.DataFrame) -> None:
    """Show the numbers of runs by platform, evidence and scale; folded, by experiment."""
    with st.container(horizontal=True):
        for label, value in totals(counts).items():
            st.metric(label, f"{value:,}", border=True, width=150)
    st.dataframe(
        count_by_status(counts, WHERE).rename(columns=NAMES),
        hide_index=True,
        alt="Runs by platform, evidence, scale, status",
    )
    _show_by_experiment(counts)


@st.fragment
def _show_by_experiment(counts: pd.DataFrame) -> None:
    """Show the numbers by experiment on demand, because the table may have thousands of rows."""
    if st.toggle("By experiment"):
        table = count_by_status(counts, ["experiment", *WHERE]).rename(columns=NAMES)
        st.dataframe(table, hide_index=True, alt="Runs by experiment, platform, evidence, scale and status")


def totals(counts: pd.DataFrame) -> Mapping[str, int]:
    """The totals of the counts; `counts` as from `queries.counts`."""
    return {
        "Platforms": counts["platform"].map(slug_of).nunique(),
        "Experiments": counts["experiment"].nunique(),
        "Runs": int(counts["n_runs"].sum()),
        "Without result": int(counts.loc[counts["status"] != "ok", "n_runs"].sum()),
    }
