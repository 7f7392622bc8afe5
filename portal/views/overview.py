"""The question, what data there is to answer it, the headline numbers, and where to read on."""

import streamlit as st

from tmflow.portal import overview
from tmflow.portal.data import study_or_stop

st.title("tmflow")
st.markdown(
    "**Which way of synchronising parallel SGD should you use on your hardware, and is transactional memory ever it?** "
    "Every number here is from a recorded run; every interval is a 95 % t interval over rounds, each a fresh process."
)
study = study_or_stop()
runs = study.all_runs
overview.say_if_quick(runs)

with st.container(horizontal=True):
    for label, value in overview.counts(runs).items():
        st.metric(label, value, border=True, width=150)

st.header("What the runs say")
st.caption(
    "Speedup over itself with one worker, for each strategy at its highest number of threads that is not "
    "oversubscribed; accuracy at the same point. Runs measured in full are left out: measuring takes time itself."
)
overview.table(overview.headline(study.runs, study.identity), "Speedup and accuracy of each strategy")

st.header("What data is here")
overview.table(overview.holdings(runs), "Runs by experiment, platform, evidence and status")
st.caption(f"Database revision {study.revision}. Newest run {runs['started_at_utc'].max()}.")

st.header("Where to go next")
for page, label, why in (
    ("views/speedup.py", "Speedup", "Does it get faster with more workers, and against what?"),
    ("views/accuracy.py", "Accuracy", "Does it still learn the same?"),
    ("views/transactions.py", "Transactions", "How many commit, and why do the others abort?"),
    ("views/runs.py", "Runs", "Every run with its provenance, and the command that repeats it."),
):
    st.page_link(page, label=f"**{label}**")
    st.caption(why)
