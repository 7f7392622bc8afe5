"""What the overview shows: the three answers, how many claims hold, what data is here, and where to read on."""

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
from tmflow.claims.render import VERDICTS, accepted, without_runs
from tmflow.native.registry import promises_of_updates
from tmflow.platform.key import slug_of
from tmflow.portal.badges import badge, by_status, judged, marked
from tmflow.portal.figure_view import show_numbers
from tmflow.portal.links import link
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import PLATFORM, Key, choose
from tmflow.reports.answers import Answer, ask
from tmflow.store import engine

CARD = 415  # px: three beside each other on a wide screen
NAMES = {"platform_name": "platform"}
WHERE = ["platform_name", "evidence", "scale"]


def say_what_it_is(counts: pd.DataFrame) -> None:
    """Call quick scale, and a database without a single result, what they are."""
    if "ok" not in set(counts["status"]):
        st.warning("**No run here has a result**: all that is recorded failed or could not run. Runs says why of each.")
    elif "full" not in set(counts["scale"]):
        st.warning(
            "**Quick scale.** All that is here comes from `make quick` or from ad hoc runs: few rounds and steps, to "
            "see that everything works. Nothing can be concluded from it; `make study` runs the study in full."
        )
    elif "quick" in set(counts["scale"]):
        st.info("Some runs are of **quick scale**: they show that everything works, and are kept apart from the rest.")


def chosen_platform(study: Study) -> str:
    """The key of the platform whose runs answer: that of the URL, else this machine's, if it has runs that could.

    Otherwise the one with the most that could: the page says that it is another machine's.
    """
    counts = study.counts
    could = counts[(counts["evidence"] == "measured") & (counts["scale"] == "full")]
    table = counts if could.empty else could
    platform = choose([PLATFORM], table, study.platform_names, defaults=study.first).one(Key.PLATFORM)
    if study.here not in set(table["platform"]):
        name = markdown(study.platform_names[platform])
        st.info(f"This machine has no {'' if could.empty else 'measured '}runs here. All below is of **{name}**.")
    return platform


def show_answers(study: Study, platform: str) -> None:
    """The three answers, beside each other where there is room."""
    with st.container(horizontal=True):
        for answer in _answers(study.url, study.state(platform=platform), platform, study.revision, study.joined):
            with st.container(border=True, width=CARD):
                figure = answer.figure and answer.figure.at(study.revision)
                _show_answer(answer._replace(figure=figure), platform, study.counts)


# Kept as it is, for all sessions: nobody changes an answer. It is the same at another revision, if the runs are.
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
    """The definition that the page Explore shows of a run's experiment: the one that was run last on its platform."""
    same = [counts[name] == run[name] for name in ("experiment", "scale", "platform")]
    of_experiment = counts[same[0] & same[1] & same[2]]
    return str(of_experiment.sort_values("newest_run_utc")["definition_sha256"].iloc[-1])


@st.fragment
def scoreboard(study: Study, platform: str) -> None:
    """How many claims have which verdict on a platform, by each kind of evidence that it has, with links to them."""
    st.caption(markdown(heading(study.reader(), platform, joined=study.joined)))
    taken = accepted(judged(study, platform))
    without = without_runs(taken)
    for kind in KINDS:
        of_kind = [its for its in taken if its.evidence == kind]
        if not of_kind or kind in without:
            continue
        counted = Counter(its.finding.verdict for its in of_kind)
        badges = " ".join(badge(name, f" {counted[name]}") for name in VERDICTS if counted[name])
        st.markdown(f"**{kind.capitalize()}** {badges}")
        with st.expander(f"Which of the {len(of_kind)} claims"):
            for its in sorted(of_kind, key=lambda its: VERDICTS.index(its.finding.verdict)):
                link("claims", f"{marked(its)} {its.id}", claim=its.id, evidence=its.evidence, platform=platform)
                st.caption(its.claim.statement)


def holdings(counts: pd.DataFrame) -> None:
    """What data is here: by platform, evidence and scale; folded, by experiment."""
    with st.container(horizontal=True):
        for label, value in totals(counts).items():
            st.metric(label, f"{value:,}", border=True, width=150)
    st.dataframe(
        by_status(counts, WHERE).rename(columns=NAMES), hide_index=True, alt="Runs by platform, evidence, scale, status"
    )
    _by_experiment(counts)


@st.fragment
def _by_experiment(counts: pd.DataFrame) -> None:
    """A table that may have thousands of rows, so it is sent when it is asked for."""
    if st.toggle("By experiment"):
        table = by_status(counts, ["experiment", *WHERE]).rename(columns=NAMES)
        st.dataframe(table, hide_index=True, alt="Runs by experiment, platform, evidence, scale and status")


def totals(counts: pd.DataFrame) -> Mapping[str, int]:
    """How much there is of what; `counts` as of `queries.counts`."""
    return {
        "Platforms": counts["platform"].map(slug_of).nunique(),
        "Experiments": counts["experiment"].nunique(),
        "Runs": int(counts["n_runs"].sum()),
        "Without result": int(counts.loc[counts["status"] != "ok", "n_runs"].sum()),
    }
