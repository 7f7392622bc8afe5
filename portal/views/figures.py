"""The figures of the study: its findings, the results of our runs, and their sources."""

import streamlit as st

from tmflow.base.escaping import markdown
from tmflow.claims.original_figures import load_originals
from tmflow.portal.pages import figures
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.url_state import MAX_QUOTED, Key

originals, wish = load_originals(), st.query_params.get(Key.FIGURE)
if wish in originals.figures:
    st.title(f"Figure {wish}")
    figures.show_detail(wish, originals, study_or_stop())
else:
    st.title("Figures of the study")
    study = study_or_stop()
    if wish is not None:
        st.warning(
            f"The link asks for figure '{markdown(wish[:MAX_QUOTED])}', which the study does not have: showing all."
        )
    figures.show_list(originals, study)
