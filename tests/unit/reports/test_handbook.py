"""The docs: every link works, every term is defined, and no statement has two versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tmflow.base.paths import project_root
from tmflow.native import registry
from tmflow.reports import docs_index
from tmflow.reports.docs_index import LINK, VOCABULARY
from tmflow.spec.strategies import PARAMETERS

DOCS = docs_index.pages()


class Here:
    """Collects the places in the text that match."""

    def page(self, name: str, anchor: str) -> str:
        return f"<{name}|{anchor}>"

    def file(self, path: str) -> str | None:
        return f"<{path}>" if path.endswith(".svg") else None


def markdown(name: str) -> str:
    return (docs_index.docs_dir() / f"{name}.md").read_text()


@pytest.mark.parametrize("name", DOCS)
def test_every_link_of_the_docs_leads_somewhere(name: str) -> None:
    for link in LINK.finditer(markdown(name)):
        if re.match(r"[a-z]+:", link[3]):
            continue
        page, anchor = docs_index.target(link[3], name)
        if page in DOCS:
            assert anchor in {"", *(section.anchor for section in DOCS[page].sections)}, link[0]
        else:
            assert (docs_index.docs_dir() / page).is_file(), link[0]
            assert not anchor, link[0]


@pytest.mark.parametrize("name", DOCS)
def test_links_are_found_as_markdown_has_them(name: str) -> None:
    """None is inside code, and no form of link is overlooked."""
    tokens = (child for block in docs_index.parser().parse(markdown(name)) for child in block.children or ())
    of_markdown = [token for token in tokens if token.type in ("link_open", "image")]
    assert len(LINK.findall(markdown(name))) == len(of_markdown)


@pytest.mark.parametrize("name", DOCS)
def test_nothing_of_a_page_is_left_out(name: str) -> None:
    """A page begins with its title, and consists of its sections; only comments are left out."""
    sections = DOCS[name].sections
    assert sections[0].level == 1
    again = "\n".join(f"{'#' * s.level} {s.title}\n{s.text}" for s in sections)
    assert [line for line in again.splitlines() if line] == [
        line for line in docs_index.without_comments(markdown(name)).splitlines() if line
    ]


def test_the_glossary_has_every_strategy_and_parameter_and_the_words_of_results() -> None:
    terms = {term.name: term for term in docs_index.glossary(DOCS[VOCABULARY])}
    assert {*registry.names(), *PARAMETERS} <= set(terms)
    words = {"staleness", "lost update", "torn read", "commit", "abort", "evidence", "round", "platform", "speedup"}
    assert words <= set(terms)
    assert terms["staleness"].definitions[0].startswith("**staleness**: how many steps of other workers landed")
    assert terms["lost update"].anchor == "lost-update"
    assert len({term.anchor for term in terms.values()}) == len(terms)


def test_a_term_has_its_own_row_of_a_table_in_words() -> None:
    page = docs_index.Page("x", [docs_index.Section(1, "X", "x", "| a | of |\n|---|---|\n| **b**: c | `d` |\n")])
    assert docs_index.glossary(page) == [docs_index.Term("b", ["**b**: c; of: `d`."])]


def test_a_definition_that_introduces_a_list_has_its_items() -> None:
    text = "A **point** has:\n\n- rounds\n- a *median*\n\nNot this.\n\n- nor this\n"
    page = docs_index.Page("x", [docs_index.Section(1, "X", "x", text)])
    assert docs_index.glossary(page) == [docs_index.Term("point", ["A **point** has:\n- rounds\n- a *median*"])]


def test_links_go_to_the_places_that_are_given() -> None:
    text = (
        "[a](protocol.md#the-statistics) [x](#here) ![p](img/p.svg) [q](q.json) [r.py](../src/r.py) [w](https://w.org)"
    )
    assert docs_index.resolve_links(text, "concepts", Here(), DOCS) == (
        "[a](<protocol|the-statistics>) [x](<concepts|here>) ![p](<img/p.svg>) q (`docs/q.json`) `src/r.py` "
        "[w](https://w.org)"
    )
    assert docs_index.resolve_links("[a](../speed.md)", "strategies/stm", Here(), DOCS) == "[a](<speed|>)"


def test_anchors_are_those_of_a_repository_s_pages(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Reads, `plain` or not?\n\n## Same\n\n    # code\n\n## Same\n")
    assert [s.anchor for s in docs_index.pages(tmp_path)["a"].sections] == ["reads-plain-or-not", "same", "same-1"]


def test_html_in_the_docs_is_text() -> None:
    assert docs_index.html("a <b>c</b>") == "<p>a &lt;b&gt;c&lt;/b&gt;</p>\n"


@pytest.mark.parametrize(("words", "found"), [("", True), ("LOCK stale", True), ("lock other", False)])
def test_a_search_wants_every_word(words: str, found: bool) -> None:
    assert docs_index.contains_words(words, "Staleness", "of a lock") is found


def test_the_numbers_of_the_readme_are_those_of_the_docs() -> None:
    """Each estimate with its interval, and the counts of the verdicts."""
    readme = (project_root() / "README.md").read_text().partition("## Results\n")[2].partition("\n## ")[0]
    docs = " ".join(" ".join(markdown(name).split()) for name in ("results", "autopsy")).replace("**", "")
    estimates = re.findall(r"\d[\d.]* \[[^\]]+\]", " ".join(readme.split()))
    assert len(estimates) >= 6
    assert [estimate for estimate in estimates if estimate not in docs] == []
    counts = r"(\d+) (?:are )?reproduced, (\d+) contradicted, (\d+) inconclusive(?:,| and) (\d+) untested"
    assert re.findall(counts, " ".join(readme.split())) == re.findall(counts, docs)
