"""Two selections of runs against each other: how B compares with A, and what else differs between them."""

import streamlit as st

from tmflow.portal.pages import compare
from tmflow.portal.study_data import study_or_stop

st.title("Compare")
study = study_or_stop()
st.markdown("How much faster, or more accurate, is B than A, and may the two be compared at all?")
compare.show(study, compare.sides_or_stop(study))
