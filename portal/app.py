"""The portal's router: which pages there are. Each page is a file in views/."""

from pathlib import Path

import streamlit as st

from tmflow.portal.concurrency import in_turn, opened_once
from tmflow.portal.share import share_bar
from tmflow.portal.study_data import troubles_told
from tmflow.portal.url_state import keep_address

# A file: a named icon would be fetched from somewhere else.
st.set_page_config(page_title="tmflow", page_icon=Path(__file__).with_name("icon.svg"), layout="wide")
page = st.navigation(
    [
        st.Page("views/overview.py", title="Overview", icon=":material/home:", default=True),
        st.Page("views/figures.py", title="Figures", icon=":material/stacked_line_chart:"),
        st.Page("views/explore.py", title="Explore", icon=":material/explore:"),
        st.Page("views/compare.py", title="Compare", icon=":material/compare_arrows:"),
        st.Page("views/claims.py", title="Claims", icon=":material/gavel:"),
        st.Page("views/platforms.py", title="Platforms", icon=":material/memory:"),
        st.Page("views/runs.py", title="Runs", icon=":material/table_rows:"),
        st.Page("views/contribute.py", title="Add your hardware", icon=":material/add_circle:"),
        st.Page("views/method.py", title="Method", icon=":material/menu_book:"),
        st.Page("views/quarantine.py", title="Quarantine", icon=":material/inventory_2:", visibility="hidden"),
    ],
    position="top",
)
keep_address()
st.html(Path(__file__).with_name("style.css"))
corner = st.container(horizontal=True, horizontal_alignment="right")
with in_turn(), troubles_told():
    page.run()
    opened_once(page.title)
with corner:  # last, for a link holds the choices that the page has made
    share_bar()
