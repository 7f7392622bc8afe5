"""The docs inside the portal: their contents with a search, a page of them, and the glossary."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from tmflow.portal.url_state import ALL, Filter, Key, choose, go_to
from tmflow.reports import docs_index
from tmflow.reports.docs_index import VOCABULARY, Page, Term

CONTENTS, GLOSSARY = "contents", "glossary"  # beside the pages of the docs
OURS = re.compile(r"(?<!!)\[([^\]]*)\]\((\?[^)]*)\)")
HEADINGS: dict[int, Callable[..., Any]] = {1: st.header, 2: st.subheader}


class Here:
    """Where the portal shows what the docs link to; pictures go into the text itself."""

    def page(self, name: str, anchor: str) -> str:
        return _to_page(name, anchor)

    def file(self, path: str) -> str | None:
        if not path.endswith(".svg"):
            return None
        picture = (docs_index.docs_dir() / path).read_bytes()
        return f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"


@st.cache_data(max_entries=1, show_spinner=False)
def docs() -> dict[str, Page]:
    """The pages of the docs, read once for each start of the portal."""
    return docs_index.pages()


def chosen_page(known: Mapping[str, Page]) -> str:
    """The page that the URL asks for; where it asks for a term alone, the glossary."""
    ours = (GLOSSARY, CONTENTS) if Key.TERM in st.query_params else (CONTENTS, GLOSSARY)
    names = {CONTENTS: "Contents", GLOSSARY: "Glossary"}
    names |= {name: docs_index.plain_text(page.title) for name, page in known.items()}
    return choose([Filter(Key.PAGE, "Page", (*ours, *known))], pd.DataFrame(), names).one(Key.PAGE)


def contents(known: Mapping[str, Page]) -> None:
    """Links to all pages and terms, or to those, and the headings, in which every word of a search is."""
    words = _search()
    n_found = 0
    for group, pages in docs_index.group_pages(known).items():
        lines = []
        for page in pages:
            for section in page.sections if words else page.sections[:1]:
                if docs_index.contains_words(words, page.title, section.title):
                    anchor = "" if section is page.sections[0] else section.anchor
                    lines.append(f"- [{section.title}]({_to_page(page.name, anchor)})")
        if lines:
            st.subheader(group)
            _write("\n".join(lines))
        n_found += len(lines)
    terms = [term for term in docs_index.glossary(known[VOCABULARY]) if docs_index.contains_words(words, term.name)]
    if terms:
        st.subheader("Glossary")
        _write(" · ".join(f"[{term.name}]({_to_term(term)})" for term in terms))
    if not n_found and not terms:
        st.info("No heading and no term has all of these words: the text of the pages is not searched.")


def glossary(known: Mapping[str, Page]) -> None:
    """Every term, or the one of the URL, each with what docs/concepts.md says of it and a link of its own."""
    terms = {term.anchor: term for term in docs_index.glossary(known[VOCABULARY])}
    names = {anchor: term.name for anchor, term in terms.items()}
    chosen = choose([Filter(Key.TERM, "Term", tuple(terms), with_all=True)], pd.DataFrame(), names).one(Key.TERM)
    _write(f"The words of this project, each for one thing; [the same in their context]({_to_page(VOCABULARY)}).")
    for anchor, term in terms.items():
        if chosen in (ALL, anchor):
            st.subheader(term.name, anchor=anchor)
            for definition in term.definitions:
                _write(docs_index.resolve_links(definition, VOCABULARY, Here(), known))
            _write(f"[Link to this term]({_to_term(term)})")


def page(known: Mapping[str, Page], name: str) -> None:
    """A page of the docs, after links to its headings."""
    its = known[name]
    for section in its.sections:
        HEADINGS.get(section.level, _small_heading)(section.title, anchor=section.anchor)
        if section is its.sections[0] and len(its.sections) > 2:
            st.markdown(
                "\n".join(f"- [{other.title}](#{other.anchor})" for other in its.sections[1:] if other.level == 2)
            )
        _write(docs_index.resolve_links(section.text, name, Here(), known))


def _write(text: str) -> None:
    """Markdown of ours; its links within the portal open in place, where Streamlit would open another tab for each."""
    st.markdown(OURS.sub(r'<a href="\2" target="_self">\1</a>', text), unsafe_allow_html=True)


def _small_heading(title: str, anchor: str) -> None:
    st.subheader(f"*{title}*", anchor=anchor)


def _search() -> str:
    """What the URL says is searched for, in a widget that writes it there."""
    st.session_state[Key.SEARCH] = st.query_params.get(Key.SEARCH, "")

    def write() -> None:
        words = st.session_state[Key.SEARCH].strip()
        go_to({Key.SEARCH: [words]} if words else {}, [Key.SEARCH])

    return st.text_input("Search headings and terms", key=Key.SEARCH, on_change=write, width=500)


def _to_page(name: str, anchor: str = "") -> str:
    """A link to a page of the docs, from within this page of the portal."""
    return f"?{urlencode({Key.PAGE.value: name})}" + (f"#{anchor}" if anchor else "")


def _to_term(term: Term) -> str:
    return f"?{urlencode({Key.TERM.value: term.anchor})}"
