"""How it was measured, what the words mean, and every other page of the docs."""

import streamlit as st

from tmflow.portal import url_state
from tmflow.portal.pages import method

st.title("Method")
url_state.begin()
docs = method.docs()
page = method.chosen_page(docs)
if page == method.CONTENTS:
    method.contents(docs)
elif page == method.GLOSSARY:
    method.glossary(docs)
else:
    method.page(docs, page)
