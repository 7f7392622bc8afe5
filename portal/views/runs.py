"""All runs, including those without a result: searched and sorted, page by page; or the details of one run."""

import streamlit as st

from tmflow.portal.pages import run_detail, runs
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.url_state import Key

st.title("Runs")
study = study_or_stop()
if not run_detail.show_run(study, st.query_params.get(Key.RUN)):
    runs.show_list(study)
