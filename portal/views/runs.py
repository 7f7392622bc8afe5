"""Every run, those without a result too: searched, sorted, page by page; or the one that the URL names, in full."""

import streamlit as st

from tmflow.portal.pages import run_detail, run_list
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.url_state import Key

st.title("Runs")
study = study_or_stop()
if not run_detail.shown(study, st.query_params.get(Key.RUN)):
    run_list.show(study)
