"""The portal's router: the list of pages. Each page is a file in views/."""

from pathlib import Path

import streamlit as st

from tmflow.portal.filter_widgets import keep_address
from tmflow.portal.links import share_bar
from tmflow.portal.server import freeze_imports, limit_pages
from tmflow.portal.study_data import report_errors

# A file, because a named icon would be fetched from another host.
st.set_page_config(page_icon=Path(__file__).with_name("icon.svg"), layout="wide")
page = st.navigation(
    [
        st.Page("views/overview.py", title="Overview", icon=":material/home:", default=True),
        st.Page("views/figures.py", title="Figures", icon=":material/stacked_line_chart:"),
        st.Page("views/explore.py", title="Explore", icon=":material/explore:"),
        st.Page("views/compare.py", title="Compare", icon=":material/compare_arrows:"),
        st.Page("views/advise.py", title="Advise", icon=":material/assistant_direction:"),
        st.Page("views/trends.py", title="Trends", icon=":material/trending_up:"),
        st.Page("views/claims.py", title="Claims", icon=":material/gavel:"),
        st.Page("views/platforms.py", title="Platforms", icon=":material/memory:"),
        st.Page("views/runs.py", title="Runs", icon=":material/table_rows:"),
        st.Page("views/contribute.py", title="Add your hardware", icon=":material/add_circle:"),
        st.Page("views/method.py", title="Method", icon=":material/menu_book:"),
        st.Page("views/quarantine.py", title="Quarantine", icon=":material/inventory_2:", visibility="hidden"),
    ],
    position="top",
)
st.set_page_config(page_title=f"{page.title} · tmflow")
keep_address()
st.html(Path(__file__).with_name("style.css"))
corner = st.container(horizontal=True, horizontal_alignment="right")
with limit_pages(), report_errors():
    page.run()
    freeze_imports(page.title)
with corner:  # last, because the link includes the choices that the page made
    share_bar()
