"""The platforms: a list, and the details of each by its permanent link."""

import streamlit as st

from tmflow.portal.pages import platforms
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.url_state import Key

st.title("Platforms")
study = study_or_stop()
key = st.query_params.get(Key.PLATFORM)
if key is None:
    platforms.show_list(study)
else:
    platforms.show_detail(study, key)
