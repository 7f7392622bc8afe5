"""Speed over threads: chart, the same numbers as a table, and downloads."""

import streamlit as st

from tmflow import summaries
from tmflow.portal.data import study_or_stop
from tmflow.portal.filters import DATA, OF_FACTORS, Filter, Key, choose
from tmflow.portal.show import show_summary

FILTERS = [
    *DATA,
    *OF_FACTORS,
    Filter(Key.METRIC, "Metric", ("speedup", "step_time")),
    Filter(Key.BASELINE, "Baseline", tuple(summaries.BASELINES)),
]
NAMES = {
    "step_time": "time per step",
    "same": "itself, one worker",
    "tf_lock": "tf_lock, one worker",
}

st.title("Speedup")
study = study_or_stop()
selection = choose(FILTERS, study.runs, NAMES)
if selection.chosen[Key.METRIC] == "step_time":
    show_summary("step_time", summaries.step_time(selection.runs), study.revision)
elif selection.chosen[Key.BASELINE] == "same":
    show_summary("speedup", summaries.speedup(selection.runs), study.revision)
else:
    show_summary("speedup_vs_tf_lock", summaries.speedup(selection.runs, "tf_lock"), study.revision)
