"""What the pages of uploads share: the visitor's address, the form for a token, and the report of a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

import pandas as pd
import streamlit as st

from tmflow.base.errors import BadInput
from tmflow.base.processes import run_tmflow
from tmflow.base.text import csv_frame, markdown, several
from tmflow.bundle.problems import Problem
from tmflow.bundle.signature import Signature
from tmflow.contributions import access
from tmflow.contributions import quarantine as quarantine_module
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Action, Quarantine
from tmflow.portal.links import download

HERE = "this machine"
SHOWN = 20  # problems shown on the page; the report to download has more


def visitor() -> str:
    """The visitor's IP address: that of the connection, or the one reported by a proxy on this machine."""
    address = st.context.ip_address or st.context.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    try:
        return str(ip_address(address))
    except ValueError:
        return HERE


def show_behind_token(
    role: Role, label: str, show: Callable[[Quarantine], None], show_off: Callable[[], object]
) -> None:
    """Show a part for one role after its token was entered; `show_off` is called if the part is turned off."""
    if problem := access.token_problem(role):
        st.warning(markdown(problem))
    elif not access.is_on(role):
        show_off()
    else:
        try:
            quarantine = Quarantine(quarantine_module.folder())
            if _admit(quarantine, role, label):
                show(quarantine)
        except BadInput as error:
            st.error(markdown(error))


def note(
    quarantine: Quarantine, action: Action, outcome: str, identity: str | None = None, details: str | None = None
) -> None:
    """Record in the audit of the quarantine what the visitor did."""
    with quarantine.begin() as connection:
        quarantine.note(connection, action, outcome, visitor(), identity, details)


def run_bundle_command(*arguments: str, within_s: float, given: bytes = b"") -> str:
    """Run `tmflow bundle` in a separate process, because the portal only reads the database. It gets no token."""
    return run_tmflow("bundle", *arguments, given=given, without_env=set(Role), within_s=within_s)


def _admit(quarantine: Quarantine, role: Role, label: str) -> bool:
    """Whether this session has entered the token; show the form for it otherwise."""
    if st.session_state.get(_key(role)):
        return True
    slot = st.empty()
    with slot.form(f"form of {role}", border=False):
        given = st.text_input(label, type="password", max_chars=200, autocomplete="off")
        if not st.form_submit_button("Go on", icon=":material/key:"):
            return False
        try:
            access.check_token(quarantine, role, given.strip(), visitor())
        except BadInput as error:
            st.error(markdown(error))
            return False
    st.session_state[_key(role)] = True
    slot.empty()
    return True


def _key(role: Role) -> str:
    return f"gave {role}"


def show_counts(runs: Mapping[str, Any]) -> None:
    """Show the numbers of new and known runs by experiment; `runs` as from `Overlap._asdict`."""
    st.dataframe(
        csv_frame(pd.DataFrame(runs["experiments"])), hide_index=True, alt="New and known runs of each experiment"
    )
    if runs["new_probe"]:
        st.caption("Its probe is new.")


def show_check(report: Mapping[str, Any]) -> None:
    """Show the description of a bundle and its problems; `report` as from `Report.as_json`."""
    platforms = ", ".join(report["platforms"].values()) or "no platform"
    st.markdown(f"**The check**: {several(report['runs'], 'run')} of {markdown(platforms)}")
    if report["identity"]:
        st.caption(f"identity {report['identity']}, version {report['version']} of bundles")
    if signature := report.get("signature"):  # reports from before signatures have none
        st.caption(markdown(f"It is {Signature(**signature).sentence}."))
    problems = [Problem(**problem) for problem in report["problems"]]
    if not problems:
        st.markdown("No problems.")
        return
    st.markdown("\n".join(f"- {problem.severity}: {markdown(problem.sentence)}" for problem in problems[:SHOWN]))
    if (more := len(problems) + report["omitted"] - SHOWN) > 0:
        st.caption(f"and {more:,} more")
    download("Full report (JSON)", json.dumps(report, indent=1), "report.json", key=f"report {report['identity']}")
