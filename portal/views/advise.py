"""The strategies ranked for a model of the reader's sizes, predicted from the measured runs."""

import streamlit as st

from tmflow.portal.pages import advise
from tmflow.portal.study_data import study_or_stop

st.title("Advise")
study = study_or_stop()
st.markdown(
    "Which strategy is the fastest for a model of your sizes? A cost model predicts it from the measured runs of other "
    "models. A measurement on your own machine decides."
)
advise.show_advice(study)
