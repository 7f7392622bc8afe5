"""Two to four selections of runs: how each compares with A, and how else they differ."""

import streamlit as st

from tmflow.portal.pages import compare
from tmflow.portal.study_data import study_or_stop

st.title("Compare")
study = study_or_stop()
st.markdown(
    "How much faster or more accurate is B than A, and are the two comparable? C and D may be compared with A, too."
)
compare.show_comparisons(study, compare.sides_or_stop(study))
