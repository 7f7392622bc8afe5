"""Any measure of an experiment over any factor, for several platforms and kinds of evidence."""

import streamlit as st

from tmflow.portal.pages import explore
from tmflow.portal.study_data import study_or_stop

st.title("Explore")
study = study_or_stop()
kind, summary = explore.select_summary(study)
explore.show_chart(kind, explore.narrow_summary(summary), study.revision)
