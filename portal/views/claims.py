"""The findings of the study as claims: what the runs of a platform say of each."""

import streamlit as st

from tmflow.base.escaping import markdown
from tmflow.claims.render import accepted
from tmflow.claims.schema import load_claims
from tmflow.portal.badges import judged
from tmflow.portal.pages import claims
from tmflow.portal.pages import claims as claim
from tmflow.portal.study_data import study_or_stop
from tmflow.portal.url_state import PLATFORM, TOLD, Key, resolve, wanted

st.title("Claims")
study = study_or_stop()
platform = resolve([PLATFORM], study.counts, wanted(), study.first).one(Key.PLATFORM)
wish = st.query_params.get(Key.CLAIM)
if wish in load_claims().claims:
    claim.detail(accepted(judged(study, platform, [wish])), study, platform)
else:
    if wish is not None:
        st.warning(f"The link asks for claim '{markdown(wish[:TOLD])}', which is not here: showing all.")
    claims.listing(accepted(judged(study, platform)), study, platform)
