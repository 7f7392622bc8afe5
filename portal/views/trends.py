"""A measure of an experiment over the campaigns of a machine."""

import streamlit as st

from tmflow.portal.pages import trends
from tmflow.portal.study_data import study_or_stop

st.title("Trends")
study = study_or_stop()
st.markdown("Did a point become faster or slower, more or less accurate, from one campaign to the next?")
trends.show_trends(study)
