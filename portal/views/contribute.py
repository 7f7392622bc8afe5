"""Four steps to contribute runs of a machine, and the most wanted machines."""

import streamlit as st

from tmflow.portal.pages import contribute
from tmflow.portal.study_data import find_study

st.title("Add your hardware")
st.markdown("A result of one machine may not hold on another. Each new machine makes the study more general.")
contribute.show_steps()

st.header("Most wanted hardware")
contribute.show_wanted_machines(find_study())
