"""The page of the quarantine: the report of each waiting bundle, and the maintainer's decision."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import pandas as pd
import streamlit as st

from tmflow.base import escaping
from tmflow.base.errors import BadInput
from tmflow.base.processes import run_tmflow
from tmflow.contributions import quarantine as quarantine_module
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine, Waiting
from tmflow.portal.access import show_behind_token, visitor
from tmflow.portal.bundle_report import show_check

OUTCOME, SEEN = "what came of a decision", "the report that was seen last"
CHOSEN, DECISION = "the bundle that is looked at", "the decision to carry out"
DECIDE_S = 600.0
AUDITED = 200
LONGEST_NAME = 40  # characters of a bundle's name on a button
OFF = (
    "Decisions on this page are turned off: use `tmflow bundle waiting`, `accept` and `reject` on the portal's "
    "machine, or set `TMFLOW_MAINTAINER_TOKEN`."
)


class Decision(NamedTuple):
    """The decision that a button requests, for the bundle whose report stands above the button."""

    action: Literal["accept", "reject"]
    identity: str
    reason: str | None = None


@st.fragment  # so that waiting for an import occupies no page slot
def show_quarantine() -> None:
    """Show the page to users with the maintainer's token; if no token is set, say so."""
    show_behind_token(Role.MAINTAINER, "The maintainer's token", _show_quarantine, lambda: st.info(OFF))


def _show_quarantine(quarantine: Quarantine) -> None:
    if DECISION in st.session_state:
        with st.spinner("Carrying out the decision"):
            _carry_out(quarantine, st.session_state.pop(DECISION))
    if outcome := st.session_state.pop(OUTCOME, None):
        done, words = outcome
        (st.success if done else st.error)(escaping.markdown(words))
    uploads = {upload.identity: upload for upload in quarantine_module.waiting(quarantine)}
    if chosen := st.selectbox(
        "Waiting",
        list(uploads),
        format_func=lambda identity: _label(uploads[identity]),
        placeholder="Nothing waits.",
        key=CHOSEN,  # keeps the choice when the list changes
    ):
        _show_one(quarantine, uploads[chosen])
    with st.expander("Log"):
        _table(quarantine_module.audit(quarantine, AUDITED)[::-1])


def _show_one(quarantine: Quarantine, upload: Waiting) -> None:
    """Show the report of a bundle and, below it, the possible decisions."""
    st.markdown(escaping.markdown(upload.sentence))
    show_check(upload.report)
    if st.session_state.get(SEEN) != upload.identity:
        st.session_state[SEEN] = upload.identity
        with quarantine.begin() as connection:
            quarantine.note(connection, "report", "shown", visitor(), upload.identity)
    if upload.state == "conflict":
        _compare(upload)
    name, identity = escaping.markdown(_label(upload)), upload.identity
    # The key and the arguments of a widget contain the identity: a click names the report that its page shows, even if
    # the list of waiting bundles has changed since.
    st.button(
        f"Accept {name}",
        type="primary",
        icon=":material/check:",
        key=f"accept {identity}",
        on_click=_request_acceptance,
        args=(identity,),
    )
    with st.form(f"reject {identity}", clear_on_submit=True):
        st.text_input("Reason for rejecting", max_chars=500, key=f"reason {identity}")
        st.form_submit_button(f"Reject {name}", icon=":material/close:", on_click=_request_rejection, args=(identity,))


def _label(upload: Waiting) -> str:
    """The contributor's name of the bundle, which need not be unique, and the beginning of its identity."""
    name = escaping.line(upload.name)
    shortened = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"
    return f"{shortened}, {upload.identity[:12]}"


def _request_acceptance(identity: str) -> None:
    st.session_state[DECISION] = Decision("accept", identity)


def _request_rejection(identity: str) -> None:
    st.session_state[DECISION] = Decision("reject", identity, st.session_state[f"reason {identity}"])


def _compare(upload: Waiting) -> None:
    """Show the differing fields of each run with two versions."""
    if not st.button("Compare with the database", icon=":material/compare_arrows:", key=f"compare {upload.identity}"):
        return
    for run in json.loads(
        run_tmflow("bundle", "compare", upload.identity, "--json", without_env=set(Role), within_s=DECIDE_S)
    ):
        withdrawn = f", withdrawn with {run['withdrawn']}" if run["withdrawn"] else ""
        st.markdown(f"**Run {escaping.markdown(run['uid'])}**{escaping.markdown(withdrawn)}")
        _table(run["fields"])


def _table(rows: Sequence[Mapping[str, str]]) -> None:
    """Show a table with untrusted texts, escaped for CSV because Streamlit offers a download."""
    st.dataframe(escaping.csv_frame(pd.DataFrame(rows)), hide_index=True, placeholder="–")


def _carry_out(quarantine: Quarantine, decision: Decision) -> None:
    """Carry out the decision in a separate process, because the portal's database connection is read-only.

    A decision on a bundle other than the one whose report the session showed last is refused.
    """
    action, identity, reason = decision
    if (seen := st.session_state.get(SEEN)) != identity:
        cause = f"the report that this page showed last is that of {seen}"
        with quarantine.begin() as connection:
            quarantine.note(connection, action, "refused", visitor(), identity, cause)
        words = f"Nothing was done to bundle {identity}, because {cause}. Read its report, then decide."
        st.session_state[OUTCOME] = False, words
        return
    options = [f"--by=maintainer at {visitor()}"] + ([] if reason is None else [f"--reason={reason}"])
    try:
        outcome = True, run_tmflow("bundle", action, identity, *options, without_env=set(Role), within_s=DECIDE_S)
    except BadInput as error:
        outcome = False, str(error)
    st.session_state[OUTCOME] = outcome
