"""The question, the three main answers, how many claims hold, what data there is, and where to read on."""

import streamlit as st

from tmflow.portal.pages import overview
from tmflow.portal.study_data import study_or_stop

st.title("tmflow")
st.markdown(
    "**Which way of synchronising parallel SGD should you use on your hardware, and is transactional memory ever it?** "
    "Every number is from recorded runs; brackets are 95 % intervals over rounds, each a fresh process."
)
study = study_or_stop()
overview.say_what_it_is(study.counts)
platform = overview.chosen_platform(study)
overview.show_answers(study, platform)

st.header("What holds of the study of 2017")
scoreboard = st.container()

st.header("What data is here")
overview.holdings(study.counts)
st.caption(f"Database revision {study.revision}.")

st.header("Where to go next")
with st.container(horizontal=True):
    for page, label, why in (
        ("figures", "Figures", "The study's figures, ours beside them."),
        ("explore", "Explore", "Any measure over any factor."),
        ("compare", "Compare", "Two selections, and why they compare or not."),
        ("platforms", "Platforms", "The machines, and what runs on them."),
        ("runs", "Runs", "Every run, and the command that repeats it."),
        ("contribute", "Add your hardware", "Four steps, on your own machine."),
        ("method", "Method", "How it was measured; what the words mean."),
    ):
        with st.container(width=220):
            st.page_link(f"views/{page}.py", label=f"**{label}**")
            st.caption(why)

with scoreboard:  # last, for judging takes longer than all else
    overview.scoreboard(study, platform)
