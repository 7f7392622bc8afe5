"""The findings of the study as claims, with the verdicts of a platform's runs."""

import streamlit as st

from tmflow.base.escaping import markdown
from tmflow.claims.render import accepted_verdicts
from tmflow.claims.schema import load_claims
from tmflow.portal.badges import load_verdicts
from tmflow.portal.pages import claims
from tmflow.portal.pages import claims as claim
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.url_state import MAX_QUOTED, PLATFORM, Key, resolve, url_parameters

st.title("Claims")
study = study_or_stop()
platform = resolve([PLATFORM], study.counts, url_parameters(), study.first).one(Key.PLATFORM)
wish = st.query_params.get(Key.CLAIM)
if wish in load_claims().claims:
    claim.show_detail(accepted_verdicts(load_verdicts(study, platform, [wish])), study, platform)
else:
    if wish is not None:
        st.warning(f"The link asks for claim '{markdown(wish[:MAX_QUOTED])}', which is not here: showing all.")
    claims.show_list(accepted_verdicts(load_verdicts(study, platform)), study, platform)
