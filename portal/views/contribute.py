"""Four steps to runs of one's own machine, and which machines are missed most."""

import streamlit as st

from tmflow.portal.pages import contribute
from tmflow.portal.study_data import study_or_stop

st.title("Add your hardware")
st.markdown("What holds on one machine may not hold on yours, and the study is only as wide as its machines.")
contribute.show_steps()

st.header("What is missed most")
contribute.show_missing(study_or_stop())
