"""The docs: the measurement protocol, the glossary and every other page."""

import streamlit as st

from tmflow.portal.filter_widgets import begin
from tmflow.portal.pages import method

st.title("Method")
begin()
docs = method.docs()
page = method.choose_page(docs)
if page == method.CONTENTS:
    method.show_contents(docs)
elif page == method.GLOSSARY:
    method.show_glossary(docs)
else:
    method.show_page(docs, page)
