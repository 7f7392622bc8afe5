"""The docs in the portal: contents with a search, single pages, and the glossary."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from tmflow.portal.filter_widgets import choose, search_box
from tmflow.portal.url_state import ALL, Choice, Key
from tmflow.reports import docs_index
from tmflow.reports.docs_index import VOCABULARY, Page, Term

CONTENTS, GLOSSARY = "contents", "glossary"  # in addition to the pages of the docs
PORTAL_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((\?[^)]*)\)")


class PortalLinks:
    """Addresses in the portal for the links of the docs; pictures are embedded in the text."""

    def page(self, name: str, anchor: str) -> str:
        return _to_page(name, anchor)

    def file(self, path: str) -> str | None:
        if not path.endswith(".svg"):
            return None
        picture = (docs_index.docs_dir() / path).read_bytes()
        return f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"


@st.cache_data(max_entries=1, show_spinner=False)
def docs() -> dict[str, Page]:
    """The pages of the docs, read once per start of the portal."""
    return docs_index.pages()


def choose_page(pages_by_name: Mapping[str, Page]) -> str:
    """The page that the URL selects; the glossary if it selects only a term."""
    first = (GLOSSARY, CONTENTS) if Key.TERM in st.query_params else (CONTENTS, GLOSSARY)
    names = {CONTENTS: "Contents", GLOSSARY: "Glossary"}
    names |= {name: docs_index.plain_text(page.title) for name, page in pages_by_name.items()}
    return choose([Choice(Key.PAGE, "Page", (*first, *pages_by_name))], pd.DataFrame(), names).one(Key.PAGE)


def show_contents(pages_by_name: Mapping[str, Page]) -> None:
    """Show links to all pages and terms; with a search, to pages, headings and terms that contain every word."""
    words = st.query_params.get(Key.SEARCH, "")
    search_box("Search headings and terms", words, width=500)
    n_matches = 0
    for group, pages in docs_index.group_pages(pages_by_name).items():
        lines = []
        for page in pages:
            for section in page.sections if words else page.sections[:1]:
                if docs_index.contains_words(words, page.title, section.title):
                    anchor = "" if section is page.sections[0] else section.anchor
                    lines.append(f"- [{section.title}]({_to_page(page.name, anchor)})")
        if lines:
            st.subheader(group)
            _write("\n".join(lines))
        n_matches += len(lines)
    glossary = docs_index.glossary(pages_by_name[VOCABULARY])
    terms = [term for term in glossary if docs_index.contains_words(words, term.name)]
    if terms:
        st.subheader("Glossary")
        _write(" · ".join(f"[{term.name}]({_to_term(term)})" for term in terms))
    if not n_matches and not terms:
        st.info("No heading and no term has all of these words. The search does not cover the text of the pages.")


def show_glossary(pages_by_name: Mapping[str, Page]) -> None:
    """Show every term, or the one of the URL, with its definitions in docs/concepts.md and a link."""
    terms = {term.anchor: term for term in docs_index.glossary(pages_by_name[VOCABULARY])}
    names = {anchor: term.name for anchor, term in terms.items()}
    chosen = choose([Choice(Key.TERM, "Term", (ALL, *terms))], pd.DataFrame(), names).one(Key.TERM)
    _write(f"The terms of this project, each with one meaning; [in context]({_to_page(VOCABULARY)}).")
    for anchor, term in terms.items():
        if chosen in (ALL, anchor):
            st.subheader(term.name, anchor=anchor)
            for definition in term.definitions:
                _write(docs_index.resolve_links(definition, VOCABULARY, PortalLinks(), pages_by_name))
            _write(f"[Link to this term]({_to_term(term)})")


def show_page(pages_by_name: Mapping[str, Page], name: str) -> None:
    """Show a page of the docs with links to its headings."""
    shown_page = pages_by_name[name]
    for section in shown_page.sections:
        if section.level == 1:
            st.header(section.title, anchor=section.anchor)
        else:
            st.subheader(section.title if section.level == 2 else f"*{section.title}*", anchor=section.anchor)
        if section is shown_page.sections[0] and len(shown_page.sections) > 2:
            others = [other for other in shown_page.sections[1:] if other.level == 2]
            st.markdown("\n".join(f"- [{other.title}](#{other.anchor})" for other in others))
        _write(docs_index.resolve_links(section.text, name, PortalLinks(), pages_by_name))


def _write(text: str) -> None:
    """Show Markdown of the docs; links within the portal open in the same tab, unlike Streamlit's default."""
    st.markdown(PORTAL_LINK.sub(r'<a href="\2" target="_self">\1</a>', text), unsafe_allow_html=True)


def _to_page(name: str, anchor: str = "") -> str:
    """A relative link to a page of the docs."""
    return f"?{urlencode({Key.PAGE.value: name})}" + (f"#{anchor}" if anchor else "")


def _to_term(term: Term) -> str:
    return f"?{urlencode({Key.TERM.value: term.anchor})}"
