"""Test accuracy over threads, and on the way where runs measured it."""

import streamlit as st

from tmflow import summaries
from tmflow.portal.data import study_or_stop
from tmflow.portal.filters import DATA, OF_FACTORS, Filter, Key, choose
from tmflow.portal.show import show_summary

FILTERS = [*DATA, *OF_FACTORS, Filter(Key.THREADS, "Threads, on the way", narrows=False)]

st.title("Accuracy")
study = study_or_stop()
selection = choose(FILTERS, study.runs)
show_summary("accuracy", summaries.accuracy(selection.runs), study.revision)

points = study.curves(selection.chosen[Key.EXPERIMENT], selection.chosen[Key.SCALE])
at = selection.runs[selection.runs["threads"] == int(selection.chosen[Key.THREADS])]
curve = summaries.curve(at, points)
if curve.empty:
    st.caption("No run of this selection measured its accuracy on the way (factor `curve_points`).")
else:
    show_summary("curve", curve, study.revision)
