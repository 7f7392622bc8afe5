"""Who looks at a page, as far as it is known, and whether they gave the token for what is behind it."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

import streamlit as st

from tmflow.base import escaping
from tmflow.base.errors import BadInput
from tmflow.contributions import access
from tmflow.contributions import quarantine as place
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine

HERE = "this machine"


def visitor() -> str:
    """The visitor's address: of the connection or, where a proxy on this machine stands between, the one it saw."""
    address = st.context.ip_address or st.context.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    try:
        return str(ip_address(address))
    except ValueError:
        return HERE


def behind_token(role: Role, label: str, show: Callable[[Quarantine], None], show_off: Callable[[], object]) -> None:
    """What is for a role alone: shown to whoever gives the token that `label` asks for; or that there is none."""
    if trouble := access.trouble(role):
        st.warning(escaping.markdown(trouble))
    elif not access.is_on(role):
        show_off()
    else:
        try:
            quarantine = Quarantine(place.folder())
            if _admitted(quarantine, role, label):
                show(quarantine)
        except BadInput as error:
            st.error(escaping.markdown(error))


def _admitted(quarantine: Quarantine, role: Role, label: str) -> bool:
    """Whether this session gave the token; asks for it otherwise."""
    if st.session_state.get(_key(role)):
        return True
    place = st.empty()
    with place.form(f"form of {role}", border=False):
        given = st.text_input(label, type="password", max_chars=200, autocomplete="off")
        if not st.form_submit_button("Go on", icon=":material/key:"):
            return False
        try:
            access.admit(quarantine, role, given.strip(), visitor())
        except BadInput as error:
            st.error(escaping.markdown(error))
            return False
    st.session_state[_key(role)] = True
    place.empty()
    return True


def _key(role: Role) -> str:
    return f"gave {role}"
