"""The share bar of every page: the link to the current view, and named views."""

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

DEFAULT_PAGE = "overview"  # its address has no page name


class Key(StrEnum):
    """Keys of the widgets."""

    NAME = "name_of_view"
    SAVE = "save_view"
    SAVED = "saved_view"
    DELETE = "delete_view"


def share_bar() -> None:
    """Show the share button with the link to this view and the named views; call it after the page's filters."""
    address = st.context.url or ""
    view = View(page=page_of(address), choices=url_state.current_choices())
    with st.popover("Share", icon=":material/share:"):
        st.markdown("**This view**")
        st.code(link(address, view.query), language=None, wrap_lines=True)
        st.caption(
            "The link opens the same view after runs were added. The captions of figures name the database revision."
        )
        _named(address, view)


def link(address: str, query: str) -> str:
    """Replace the query of an address."""
    return urlunsplit(urlsplit(address)._replace(query=query))


def page_of(address: str) -> str:
    """The page of an address, by the name of its file."""
    name = urlsplit(address).path.rpartition("/")[2]
    return name if (project_root() / "portal" / "views" / f"{name}.py").is_file() else DEFAULT_PAGE


@st.fragment
def _named(address: str, view: View) -> None:
    """Show the named views and a form to name this one. A fragment, so that the page is not redrawn."""
    file = saved_views.path()
    st.markdown("**Named views**")
    refused = saved_views.refusal(file)
    if refused:
        st.caption(escaping.markdown(refused))
    else:
        _form(file, view)
    try:
        views = saved_views.load_views(file)
    except BadInput as error:
        st.error(escaping.markdown(error))
        return
    if views:
        _open(file, views, address, may_delete=refused is None)


def _form(file: Path, view: View) -> None:
    with st.form(Key.SAVE, clear_on_submit=True, border=False):
        name = st.text_input("Name for this view", key=Key.NAME, max_chars=60)
        if st.form_submit_button("Save", icon=":material/bookmark_add:"):
            try:
                saved_views.save(file, name.strip(), view)
            except BadInput as error:
                st.error(escaping.markdown(error))


def _open(file: Path, views: dict[str, View], address: str, may_delete: bool) -> None:
    name = st.selectbox("Saved", list(views), key=Key.SAVED)
    view = views[name]
    st.code(link(address, saved_views.query({url_state.Key.VIEW: [name]})), language=None, wrap_lines=True)
    with st.container(horizontal=True):
        try:
            page = f"views/{view.page}.py"
            st.page_link(page, label="Open", icon=":material/open_in_new:", query_params=view.choices)
        except StreamlitAPIException:
            st.caption(f"The page '{view.page}' no longer exists.")
        if may_delete:
            st.button("Delete", icon=":material/delete:", key=Key.DELETE, on_click=_delete, args=(file, name))


def _delete(file: Path, name: str) -> None:
    try:
        saved_views.delete(file, name)
    except BadInput as error:
        st.toast(escaping.markdown(error))
