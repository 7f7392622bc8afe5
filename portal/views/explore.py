"""Any measure of an experiment over any factor, of several platforms and kinds of evidence."""

import streamlit as st

from tmflow.portal.pages import explore
from tmflow.portal.study_data import study_or_stop

st.title("Explore")
study = study_or_stop()
kind, summary = explore.selected(study)
explore.shown(kind, explore.narrowed(summary), study.revision)
