"""Every run, those without a result too; and one run in full."""

import streamlit as st

from tmflow.portal import runs
from tmflow.portal.data import study_or_stop
from tmflow.portal.filters import DATA, OF_FACTORS, Filter, Key, choose

FILTERS = [
    *(entry._replace(with_all=True) for entry in DATA),
    Filter(Key.STRATEGY, "Strategy", with_all=True),
    *OF_FACTORS,
    Filter(Key.STATUS, "Status", with_all=True),
]

st.title("Runs")
study = study_or_stop()
runs.listing(choose(FILTERS, study.all_runs).runs, len(study.all_runs))
uid = st.query_params.get(Key.RUN)
row = study.all_runs[study.all_runs["uid"] == uid]
if len(row):
    runs.detail(study.run(uid), row, study.revision)
elif uid is not None:
    st.warning(f"The link asks for run '{uid}', which is not in this database.")
