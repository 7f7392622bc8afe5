"""What waits for a maintainer: the report of each bundle, and the two answers to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from tmflow import inert
from tmflow.errors import BadInput
from tmflow.portal import own_process
from tmflow.portal.admission import behind_token, visitor
from tmflow.portal.check import show_check
from tmflow.quarantine import listed
from tmflow.quarantine.listed import Waiting
from tmflow.quarantine.place import Quarantine
from tmflow.quarantine.tokens import Role

SAID, SEEN = "what came of a decision", "the report that was seen last"
DECIDE_S = 600.0
AUDITED = 200
OFF = (
    "Nobody decides on this page: that is done on the machine of the portal, with `tmflow bundle waiting`, `accept` "
    "and `reject`, or here once `TMFLOW_MAINTAINER_TOKEN` is set."
)


@st.fragment  # so that who waits for an import takes no page's turn
def show_quarantine() -> None:
    """The page for whoever has the maintainer's token; where there is none, a word about it."""
    behind_token(Role.MAINTAINER, "The maintainer's token", _show_quarantine, lambda: st.info(OFF))


def _show_quarantine(quarantine: Quarantine) -> None:
    if said := st.session_state.pop(SAID, None):
        done, words = said
        (st.success if done else st.error)(inert.markdown(words))
    uploads = {upload.identity: upload for upload in listed.waiting(quarantine)}
    if chosen := st.selectbox(
        "Waiting",
        list(uploads),
        format_func=lambda identity: f"{inert.line(uploads[identity].name)}, {identity[:12]}",
        placeholder="Nothing waits.",
    ):
        _show_one(quarantine, uploads[chosen])
    with st.expander("What was done"):
        _table(listed.audit(quarantine, AUDITED)[::-1])


def _show_one(quarantine: Quarantine, upload: Waiting) -> None:
    """Its report, and only below it what can be done."""
    st.markdown(inert.markdown(upload.sentence))
    show_check(upload.report)
    if st.session_state.get(SEEN) != upload.identity:
        st.session_state[SEEN] = upload.identity
        with quarantine.begin() as connection:
            quarantine.note(connection, "report", "shown", visitor(), upload.identity)
    if upload.state == "conflict":
        _compare(upload)
    if st.button("Accept", type="primary", icon=":material/check:"):
        with st.spinner("Storing its runs"):
            _decide("accept", upload)
    with st.form("reject", clear_on_submit=True):
        reason = st.text_input("Why not", max_chars=500)
        if st.form_submit_button("Reject", icon=":material/close:"):
            _decide("reject", upload, f"--reason={reason}")


def _compare(upload: Waiting) -> None:
    """Each run of which there are two versions, and these where they differ."""
    if not st.button("Compare with the database", icon=":material/compare_arrows:"):
        return
    for run in json.loads(own_process.told("bundle", "compare", upload.identity, "--json", within_s=DECIDE_S)):
        withdrawn = f", withdrawn with {run['withdrawn']}" if run["withdrawn"] else ""
        st.markdown(f"**Run {inert.markdown(run['uid'])}**{inert.markdown(withdrawn)}")
        _table(run["fields"])


def _table(rows: Sequence[Mapping[str, str]]) -> None:
    """Of texts that others had a part in: Streamlit lets a reader save it as CSV."""
    st.dataframe(inert.csv_frame(pd.DataFrame(rows)), hide_index=True, placeholder="–")


def _decide(decision: str, upload: Waiting, *words: str) -> None:
    """Have it done by a process of its own: the portal's connection to the database cannot write."""
    by = f"--by=maintainer at {visitor()}"
    try:
        said = True, own_process.told("bundle", decision, upload.identity, by, *words, within_s=DECIDE_S)
    except BadInput as error:
        said = False, str(error)
    st.session_state[SAID] = said
    st.rerun()
