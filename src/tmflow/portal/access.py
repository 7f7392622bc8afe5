"""Access to pages: the visitor's address, and the token that a protected part asks for."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

import streamlit as st

from tmflow.base import escaping
from tmflow.base.errors import BadInput
from tmflow.contributions import access
from tmflow.contributions import quarantine as quarantine_module
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine

HERE = "this machine"


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
        st.warning(escaping.markdown(problem))
    elif not access.is_on(role):
        show_off()
    else:
        try:
            quarantine = Quarantine(quarantine_module.folder())
            if _admit(quarantine, role, label):
                show(quarantine)
        except BadInput as error:
            st.error(escaping.markdown(error))


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
            st.error(escaping.markdown(error))
            return False
    st.session_state[_key(role)] = True
    slot.empty()
    return True


def _key(role: Role) -> str:
    return f"gave {role}"
