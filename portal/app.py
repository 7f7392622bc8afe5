"""The portal's router: which pages there are. Each page is a file in views/."""

import streamlit as st

st.set_page_config(page_title="tmflow", page_icon=":material/monitoring:", layout="wide")
st.navigation(
    [
        st.Page("views/overview.py", title="Overview", icon=":material/home:", default=True),
        st.Page("views/speedup.py", title="Speedup", icon=":material/speed:"),
        st.Page("views/accuracy.py", title="Accuracy", icon=":material/target:"),
        st.Page("views/transactions.py", title="Transactions", icon=":material/swap_horiz:"),
        st.Page("views/runs.py", title="Runs", icon=":material/table_rows:"),
    ],
    position="top",
).run()
