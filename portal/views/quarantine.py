"""Bundles that wait for a maintainer."""

import streamlit as st

from tmflow.portal.pages import quarantine

st.title("Quarantine")
st.markdown("Contributed bundles. Their runs enter the database only after a maintainer accepts them.")
quarantine.show_quarantine()
