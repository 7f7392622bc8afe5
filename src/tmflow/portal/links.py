"""Links between pages, the share bar with permanent links and named views, downloads, and commands to copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from mimetypes import guess_type
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st
from streamlit.errors import StreamlitAPIException

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.base.text import markdown
from tmflow.portal import saved_views
from tmflow.portal.filter_widgets import current_choices, sources_joined
from tmflow.portal.saved_views import View
from tmflow.portal.url_state import JOINED, Key

Item = TypeVar("Item")
ICONS = {
    "claims": "gavel", "figures": "stacked_line_chart", "runs": "table_rows", "explore": "explore",
    "method": "menu_book", "quarantine": "inventory_2", "platforms": "memory",
}  # fmt: skip
LANGUAGE = "text"  # no highlighting: shell options are barely legible in the light theme
DEFAULT_PAGE = "overview"  # its address has no page name


def link(page: str, label: str, /, **view: str | Sequence[str]) -> None:
    """Show a link to a page with these URL parameters; a long label is wrapped."""
    st.page_link(f"views/{page}.py", label=label, icon=f":material/{ICONS[page]}:", query_params=with_sources(view))


def with_sources(view: Mapping[str, str | Sequence[str]]) -> dict[str, str | Sequence[str]]:
    """The parameters of a link; joined sources stay joined unless the view says otherwise."""
    kept = {str(Key.JOIN): JOINED} if sources_joined() else {}
    return {name: value for name, value in {**kept, **view}.items() if value != ""}


def show_permanent_link(label: str, view: Mapping[str, str | Sequence[str]]) -> None:
    """Show the address of the current page with these parameters, to copy."""
    st.caption(label)
    show_text(f"{st.context.url or ''}?{urlencode(view)}")


def show_text(text: str) -> None:
    """Show a text to copy."""
    st.code(text, language=None, wrap_lines=True)


def download(label: str, content: str | Callable[[], str | bytes], name: str, key: str | None = None) -> None:
    """Show a button that downloads a file; a function makes its content on demand."""
    st.download_button(
        label,
        content,
        file_name=name,
        mime=guess_type(name)[0],
        icon=":material/download:",
        key=key,
        on_click="ignore",
    )


def halves(items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Split items for two columns, which a phone shows one above the other."""
    middle = (len(items) + 1) // 2
    return items[:middle], items[middle:]


def show_commands(*commands: str) -> None:
    """Show commands, one per line."""
    st.code("\n".join(commands), language=LANGUAGE, wrap_lines=True)


def share_bar() -> None:
    """Show the share button with the link to this view and the named views; call it after the page's filters."""
    address = st.context.url or ""
    view = View(page=page_of(address), choices=current_choices())
    with st.popover("Share", icon=":material/share:"):
        st.markdown("**This view**")
        show_text(_with_query(address, view.query))
        st.caption(
            "The link opens the same view after runs were added. The captions of figures name the database revision."
        )
        _show_named_views(address, view)


def page_of(address: str) -> str:
    """The page of an address, by the name of its file."""
    name = urlsplit(address).path.rpartition("/")[2]
    return name if (project_root() / "portal" / "views" / f"{name}.py").is_file() else DEFAULT_PAGE


def _with_query(address: str, query: str) -> str:
    return urlunsplit(urlsplit(address)._replace(query=query))


@st.fragment
def _show_named_views(address: str, view: View) -> None:
    """Show a form to name this view, and the named views. A fragment, so that the page is not redrawn."""
    file = saved_views.path()
    st.markdown("**Named views**")
    refused = saved_views.refusal(file)
    if refused:
        st.caption(markdown(refused))
    else:
        with st.form("save_view", clear_on_submit=True, border=False):
            name = st.text_input("Name for this view", key="name_of_view", max_chars=60)
            if st.form_submit_button("Save", icon=":material/bookmark_add:"):
                try:
                    saved_views.save(file, name.strip(), view)
                except BadInput as error:
                    st.error(markdown(error))
    try:
        views = saved_views.load_views(file)
    except BadInput as error:
        st.error(markdown(error))
        return
    if not views:
        return
    name = st.selectbox("Saved", list(views), key="saved_view")
    show_text(_with_query(address, urlencode({Key.VIEW.value: name})))
    with st.container(horizontal=True):
        page = views[name].page
        try:
            icon = ":material/open_in_new:"
            st.page_link(f"views/{page}.py", label="Open", icon=icon, query_params=views[name].choices)
        except StreamlitAPIException:
            st.caption(f"The page '{page}' no longer exists.")
        if not refused:
            st.button("Delete", icon=":material/delete:", key="delete_view", on_click=_delete_view, args=(file, name))


def _delete_view(file: Path, name: str) -> None:
    try:
        saved_views.delete(file, name)
    except BadInput as error:
        st.toast(markdown(error))
