"""Bundles that wait for a maintainer."""

import streamlit as st

from tmflow.portal.pages import quarantine

st.title("Quarantine")
st.markdown("Bundles that others handed over. None of their runs is in the database before it is accepted here.")
quarantine.show_quarantine()
