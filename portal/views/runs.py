"""Every run, those without a result too: searched, sorted, page by page; or the one that the URL names, in full."""

import streamlit as st

from tmflow.portal import one_run, run_list
from tmflow.portal.data import study_or_stop
from tmflow.portal.filters import Key

st.title("Runs")
study = study_or_stop()
if not one_run.shown(study, st.query_params.get(Key.RUN)):
    run_list.show(study)
