"""The link to what a page shows, and views that are kept under a name: on every page, one line of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import streamlit as st
from streamlit.errors import StreamlitAPIException

from tmflow.base import escaping
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.portal import saved_views, url_state
from tmflow.portal.saved_views import View

DEFAULT_PAGE = "overview"  # the one without a name in its address


class Key(StrEnum):
    """Widgets."""

    NAME = "name_of_view"
    SAVE = "save_view"
    SAVED = "saved_view"
    DELETE = "delete_view"


def share_bar() -> None:
    """A button that opens the link to this view, and the named views; to be called after the page's filters."""
    address = st.context.url or ""
    view = View(page=page_of(address), choices=url_state.present())
    with st.popover("Share", icon=":material/share:"):
        st.markdown("**This view**")
        st.code(link(address, view.query), language=None, wrap_lines=True)
        st.caption("It opens the same view when runs have been added. A figure's caption says which database it is of.")
        _named(address, view)


def link(address: str, query: str) -> str:
    """The address of a page with this query."""
    return urlunsplit(urlsplit(address)._replace(query=query))


def page_of(address: str) -> str:
    """The page that an address is of, as its file is named."""
    name = urlsplit(address).path.rpartition("/")[2]
    return name if (project_root() / "portal" / "views" / f"{name}.py").is_file() else DEFAULT_PAGE


@st.fragment
def _named(address: str, view: View) -> None:
    """The views that have a name, and a form to name this one. A fragment: the page is not drawn anew for it."""
    file = saved_views.path()
    st.markdown("**Named views**")
    refused = saved_views.refusal(file)
    if refused:
        st.caption(escaping.markdown(refused))
    else:
        _form(file, view)
    try:
        saved = saved_views.saved(file)
    except BadInput as error:
        st.error(escaping.markdown(error))
        return
    if saved:
        _open(file, saved, address, may_delete=refused is None)


def _form(file: Path, view: View) -> None:
    with st.form(Key.SAVE, clear_on_submit=True, border=False):
        name = st.text_input("Name for this view", key=Key.NAME, max_chars=60)
        if st.form_submit_button("Save", icon=":material/bookmark_add:"):
            try:
                saved_views.save(file, name.strip(), view)
            except BadInput as error:
                st.error(escaping.markdown(error))


def _open(file: Path, saved: dict[str, View], address: str, may_delete: bool) -> None:
    name = st.selectbox("Saved", list(saved), key=Key.SAVED)
    view = saved[name]
    st.code(link(address, saved_views.query({url_state.Key.VIEW: [name]})), language=None, wrap_lines=True)
    with st.container(horizontal=True):
        try:
            page = f"views/{view.page}.py"
            st.page_link(page, label="Open", icon=":material/open_in_new:", query_params=view.choices)
        except StreamlitAPIException:
            st.caption(f"There is no page '{view.page}' any more.")
        if may_delete:
            st.button("Delete", icon=":material/delete:", key=Key.DELETE, on_click=_delete, args=(file, name))


def _delete(file: Path, name: str) -> None:
    try:
        saved_views.delete(file, name)
    except BadInput as error:
        st.toast(escaping.markdown(error))
