"""The figures of the study: its findings, the results of our runs, and their sources."""

import streamlit as st

from tmflow.claims.originals import load_originals
from tmflow.portal.filter_widgets import warn_unknown
from tmflow.portal.pages import figures
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.url_state import Key

originals, requested = load_originals(), st.query_params.get(Key.FIGURE)
if requested in originals.figures:
    st.title(f"Figure {requested}")
    figures.show_detail(requested, originals, study_or_stop())
else:
    st.title("Figures of the study")
    study = study_or_stop()
    if requested is not None:
        warn_unknown("figure", requested, "which the study does not have: showing all.")
    figures.show_list(originals, study)
