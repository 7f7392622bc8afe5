"""The findings of the study as claims, with the verdicts of a platform's runs."""

import streamlit as st

from tmflow.claims.render import accepted_verdicts
from tmflow.claims.schema import load_claims
from tmflow.portal.badges import load_verdicts
from tmflow.portal.filter_widgets import url_parameters, warn_unknown
from tmflow.portal.pages import claims
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.url_state import PLATFORM, Key, resolve

st.title("Claims")
study = study_or_stop()
platform = resolve([PLATFORM], study.counts, url_parameters(), study.first).one(Key.PLATFORM)
requested = st.query_params.get(Key.CLAIM)
if requested in load_claims().claims:
    claims.show_detail(accepted_verdicts(load_verdicts(study, platform, [requested])), study, platform)
else:
    if requested is not None:
        warn_unknown("claim", requested, "which is not here: showing all.")
    claims.show_list(accepted_verdicts(load_verdicts(study, platform)), study, platform)
