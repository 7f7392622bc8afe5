"""The question, what the runs say, the platforms side by side, the answers, the claims, the data, and links."""

import streamlit as st

from tmflow.claims.originals import DISTRIBUTED_STUDY, HPX_STUDY, load_originals
from tmflow.portal import platform_matrix
from tmflow.portal.pages import overview
from tmflow.portal.study_data import study_or_stop

st.title("tmflow")
st.markdown(
    "**Which way of synchronising parallel SGD should you use on your hardware, and does transactional memory ever pay "
    "off?** Every number comes from recorded runs; brackets are 95 % intervals over rounds, each a fresh process."
)
study = study_or_stop()
overview.show_scale_warning(study.counts)
platform = overview.choose_platform(study)
platform_matrix.show_finding(study, platform)

st.header("Platforms side by side")
model = platform_matrix.choose_model(study)
matrix = st.empty()

st.header("Three answers")
overview.show_answers(study, platform)

st.header("Which findings of the studies hold")
st.caption(
    f"The 2017 study: {load_originals().study.citation()}. The distributed study: {DISTRIBUTED_STUDY}. "
    f"The HPX study: {HPX_STUDY}."
)
scoreboard = st.container()

st.header("Available data")
overview.show_holdings(study.counts)
st.caption(f"Database revision {study.revision}.")

st.header("Next steps")
with st.container(horizontal=True):
    for page, label, why in (
        ("figures", "Figures", "The study's figures and ours, side by side."),
        ("explore", "Explore", "Any measure over any factor."),
        ("compare", "Compare", "Two selections, and whether they are comparable."),
        ("advise", "Advise", "Predicted times of the strategies for a model of your sizes."),
        ("trends", "Trends", "Campaigns and versions over time, and what changed."),
        ("platforms", "Platforms", "The machines and their capabilities."),
        ("runs", "Runs", "Every run, and the command that repeats it."),
        ("contribute", "Add your hardware", "Four steps on your machine."),
        ("method", "Method", "Measurement protocol and glossary."),
    ):
        with st.container(width=220):
            st.page_link(f"views/{page}.py", label=f"**{label}**")
            st.caption(why)

with scoreboard:  # late, because judging takes long
    overview.show_scoreboard(study, platform)
for judged in (False, True):  # last, because it reads the runs of many platforms, and judges the claims on each
    with matrix.container():
        platform_matrix.show_matrix(study, model, judged=judged)
