"""How many transactions commit, and why the others abort: of hardware, of software, and emulated."""

import streamlit as st

from tmflow import summaries
from tmflow.portal.data import study_or_stop
from tmflow.portal.filters import DATA, OF_FACTORS, Key, choose
from tmflow.portal.show import show_summary, table_of

st.title("Transactions")
study = study_or_stop()
selection = choose([*DATA, *OF_FACTORS], study.runs)
counted, aborts = study.transactions(selection.chosen[Key.EXPERIMENT], selection.chosen[Key.SCALE])
commits = summaries.commits(selection.runs, counted)
if commits.empty:
    st.caption("No strategy of this selection tries transactions.")
    st.stop()
show_summary("commits", commits, study.revision)
st.header("Why attempts abort")
st.caption("Share of the transactions begun that aborted, by the family of the cause; the others committed.")
failures = summaries.failures(selection.runs, counted, aborts)
if failures.empty:
    st.caption("No run of this selection counted its attempts.")
else:
    table_of(failures)
classes = summaries.classes(selection.runs, aborts)
if not classes.empty:
    st.header("In the study's classes")
    st.caption(
        "Aborts of all runs above, counted by the study's rule (capacity by equality of the whole status, conflicts "
        "before capacity) and by what the bits of the raw status say."
    )
    st.dataframe(classes, hide_index=True, width="content")
