"""The table of all claims."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from tmflow.base.escaping import markdown
from tmflow.claims.heading import heading
from tmflow.claims.judge import KINDS, Judged
from tmflow.claims.render import MARKS, counted, without_runs
from tmflow.claims.verdict import in_words
from tmflow.portal.badges import marked
from tmflow.portal.figure_view import width_of
from tmflow.portal.links import halves, link
from tmflow.portal.study_data import Study
from tmflow.portal.url_state import PLATFORM, Filter, Key, choose

INTRODUCTION = (
    "Each finding of the 2017 study, held against the runs of one platform, by each kind of evidence apart. "
    "**Reproduced**: every part of it is shown to hold. **Contradicted**: some part is shown not to. **Inconclusive**: "
    "neither yet. **Untested**: a run or a machine is missing."
)
OF = (
    Filter(Key.VERDICT, "Verdict", several=True, with_all=True),
    Filter(Key.EVIDENCE, "Evidence", several=True, with_all=True),
)


def listing(judged: Sequence[Judged], study: Study, platform: str) -> None:
    """All claims: a link to the page of each, and a table to sort and to keep."""
    st.markdown(INTRODUCTION)
    without = without_runs(judged)
    told = [its for its in judged if its.evidence not in without]
    choose([PLATFORM], study.counts, study.platform_names, defaults=study.first)
    st.caption(markdown(heading(study.reader(), platform, joined=study.joined)))
    chosen = choose(OF, _rows(told))
    counts = [f"{kind}: {counted(told, kind)}." for kind in KINDS if any(its.evidence == kind for its in told)]
    missing = [f"No run here is {' or '.join(without)}."] if without else []
    st.caption("  \n".join([*counts, *missing]))
    rows = chosen.rows.to_dict("records")
    for column, part in zip(st.columns(2), halves(rows), strict=True):
        with column:
            for row in part:
                view = {"claim": row["claim"], "evidence": row["evidence"], "platform": platform}
                link("claims", f"{row['badge']} {row['claim']}", **view)
                decides = markdown(f"{row['source'].capitalize()}: {row['decides']}")
                st.markdown(f"{row['statement']}  \n:small[:gray[{decides}]]")
    with st.expander("As a table"):
        _table(chosen.rows)


def _rows(judged: Sequence[Judged]) -> pd.DataFrame:
    """A row for each verdict."""
    return pd.DataFrame(
        {
            "claim": [its.id for its in judged],
            "verdict": [its.finding.verdict for its in judged],
            "badge": [marked(its) for its in judged],
            "shown": [f"{MARKS[its.finding.verdict]} {its.finding.verdict}" for its in judged],
            "evidence": [its.evidence for its in judged],
            "decides": [
                in_words(its.finding.decides) if its.finding.decides else "no number decides it yet" for its in judged
            ],
            "source": [its.claim.source for its in judged],
            "statement": [its.claim.statement for its in judged],
        }
    )


def _table(rows: pd.DataFrame) -> None:
    """Choosing a row opens its page."""
    st.dataframe(
        rows.reset_index(drop=True),
        hide_index=True,
        height="content",
        column_order=["claim", "shown", "evidence", "decides", "source", "statement"],
        column_config={
            "claim": st.column_config.TextColumn(width=width_of(rows["claim"])),
            "shown": st.column_config.TextColumn("verdict", width=130),
            "decides": st.column_config.TextColumn("the number that decides", width="large"),
            "statement": st.column_config.TextColumn("what the study found", width="large"),
        },
        on_select=lambda: _open(rows),
        selection_mode="single-row",
        key="claims",
        alt=f"Table of {len(rows)} verdicts on claims",
    )


def _open(rows: pd.DataFrame) -> None:
    for place in st.session_state["claims"]["selection"]["rows"]:
        st.query_params[Key.CLAIM] = rows["claim"].iloc[place]
        st.query_params[Key.EVIDENCE] = rows["evidence"].iloc[place]
