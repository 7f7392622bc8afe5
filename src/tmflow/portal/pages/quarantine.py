"""The page of the quarantine: the report of each waiting bundle, and the maintainer's decision."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pandas as pd
import streamlit as st

from tmflow.base.errors import BadInput
from tmflow.base.text import csv_frame, markdown, one_line
from tmflow.contributions import quarantine as quarantine_module
from tmflow.contributions.access import MOST_WAITING, Role
from tmflow.contributions.quarantine import Quarantine, Waiting
from tmflow.portal.figure_view import show_drawing, show_frame
from tmflow.portal.study_data import Identity, database_state
from tmflow.portal.uploads import note, run_bundle_command, show_behind_token, show_check, show_counts, visitor

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
        (st.success if done else st.error)(markdown(words))
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
    st.markdown(markdown(upload.sentence))
    show_check(upload.report)
    if st.session_state.get(SEEN) != upload.identity:
        st.session_state[SEEN] = upload.identity
        note(quarantine, "report", "shown", upload.identity)
    # On request, because it takes time, in which the page takes no other click.
    if st.button("See what would change", icon=":material/difference:", key=f"preview {upload.identity}"):
        _show_preview(upload)
    if upload.state == "conflict":
        _compare(upload)
    name, identity = markdown(_label(upload)), upload.identity
    # The key and the arguments of a widget contain the identity: a click names the report that its page shows, even if
    # the list of waiting bundles has changed since.
    st.button(
        f"Accept {name}",
        type="primary",
        icon=":material/check:",
        key=f"accept {identity}",
        on_click=_request,
        args=("accept", identity),
    )
    with st.form(f"reject {identity}", clear_on_submit=True):
        st.text_input("Reason for rejecting", max_chars=500, key=f"reason {identity}")
        st.form_submit_button(f"Reject {name}", icon=":material/close:", on_click=_request, args=("reject", identity))


def _show_preview(upload: Waiting) -> None:
    """Show what accepting the bundle would change, and a chart of its runs."""
    try:
        preview = _preview(upload.identity, database_state())
    except BadInput as error:
        st.error(markdown(error))
        return
    st.markdown(f"**If accepted**: {markdown(preview['runs_sentence'])} {markdown(preview['verdicts_sentence'])}")
    show_counts(preview["runs"])
    if preview["verdicts"]:
        columns = {"of_bundle": "by its runs alone", "before": "shown now", "after": "shown then"}
        verdicts = pd.DataFrame(preview["verdicts"]).rename(columns=columns)
        show_frame(verdicts[["claim", "evidence", *columns.values(), "statement"]], "Verdicts that the bundle decides")
    if chart := preview["chart"]:
        st.markdown(f"**{markdown(chart['title'])}**")
        show_drawing("bundle", chart["vega_lite"])
        st.caption("  \n".join(map(markdown, chart["caption"])))


@st.cache_data(show_spinner="Comparing its runs with the database", max_entries=MOST_WAITING)
def _preview(identity: str, database: Identity) -> dict[str, Any]:
    preview: dict[str, Any] = json.loads(run_bundle_command("preview", identity, "--json", within_s=DECIDE_S))
    return preview


def _label(upload: Waiting) -> str:
    """The contributor's name of the bundle, which need not be unique, and the beginning of its identity."""
    name = one_line(upload.name)
    shortened = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"
    return f"{shortened}, {upload.identity[:12]}"


def _request(action: Literal["accept", "reject"], identity: str) -> None:
    reason = st.session_state[f"reason {identity}"] if action == "reject" else None
    st.session_state[DECISION] = Decision(action, identity, reason)


def _compare(upload: Waiting) -> None:
    """Show the differing fields of each run with two versions."""
    if not st.button("Compare with the database", icon=":material/compare_arrows:", key=f"compare {upload.identity}"):
        return
    for run in json.loads(run_bundle_command("compare", upload.identity, "--json", within_s=DECIDE_S)):
        withdrawn = f", withdrawn with {run['withdrawn']}" if run["withdrawn"] else ""
        st.markdown(f"**Run {markdown(run['uid'])}**{markdown(withdrawn)}")
        _table(run["fields"])


def _table(rows: Sequence[Mapping[str, str]]) -> None:
    """Show a table with untrusted texts, escaped for CSV because Streamlit offers a download."""
    st.dataframe(csv_frame(pd.DataFrame(rows)), hide_index=True, placeholder="–")


def _carry_out(quarantine: Quarantine, decision: Decision) -> None:
    """Carry out the decision in a separate process, because the portal's database connection is read-only.

    A decision on a bundle other than the one whose report the session showed last is refused.
    """
    action, identity, reason = decision
    if (seen := st.session_state.get(SEEN)) != identity:
        cause = f"the report that this page showed last is that of {seen}"
        note(quarantine, action, "refused", identity, cause)
        words = f"Nothing was done to bundle {identity}, because {cause}. Read its report, then decide."
        st.session_state[OUTCOME] = False, words
        return
    options = [f"--by=maintainer at {visitor()}"] + ([] if reason is None else [f"--reason={reason}"])
    try:
        outcome = True, run_bundle_command(action, identity, *options, within_s=DECIDE_S)
    except BadInput as error:
        outcome = False, str(error)
    st.session_state[OUTCOME] = outcome
