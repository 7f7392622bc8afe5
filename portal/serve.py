"""The portal's server: the pages of app.py, the compressed front end, and the warm-up."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from tmflow.portal.front_end import FrontEnd
from tmflow.portal.warm_up import warm

# By the path of each page. The quarantine is not opened beforehand: it shows nothing without a token.
PAGES = ["", "figures", "explore", "compare", "trends", "claims", "platforms", "runs", "contribute", "method", "advise"]

app = st.App(
    Path(__file__).with_name("app.py"),
    middleware=[Middleware(FrontEnd, pages=[f"/{page}" for page in PAGES])],
    lifespan=warm(PAGES),
)
