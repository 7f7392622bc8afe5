"""The docs as a handbook: its pages, their headings, and the glossary, for the portal and for a published site.

Everything is read from docs/, so that the words are the same everywhere; the terms are those that docs/concepts.md
prints in bold.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tmflow.base.paths import project_root

VOCABULARY = "concepts"  # the page whose terms are the glossary
# Read first, in this order; the other pages follow by name.
FIRST = ("concepts", "protocol", "claims", "results", "figures", "strategies", "reading", "experiments", "database")
GROUPS = {"": "The study", "strategies": "Strategies in full", "speed": "Speed, measured", "adr": "Decisions"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class Section(NamedTuple):
    """A heading and the Markdown under it, to the next heading of whatever level (1 to 6)."""

    level: int
    title: str
    anchor: str
    text: str


class Page(NamedTuple):
    """A page of docs/; `name` is its path there without the extension, such as strategies/htm."""

    name: str
    sections: list[Section]

    @property
    def title(self) -> str:
        return self.sections[0].title

    @property
    def group(self) -> str:
        return GROUPS.get(posixpath.dirname(self.name), posixpath.dirname(self.name))


class Term(NamedTuple):
    """A word of the vocabulary, and the Markdown of every place that defines it."""

    name: str
    definitions: list[str]

    @property
    def anchor(self) -> str:
        return anchor_of(self.name)


class Places(Protocol):
    """Where what the docs link to is to be found."""

    def page(self, name: str, anchor: str) -> str: ...
    def file(self, path: str) -> str | None:
        """Of a file of docs/ that is no page, by its path there; None where it is not to be had."""
        ...


def docs_dir() -> Path:
    return project_root() / "docs"


def pages(folder: Path | None = None) -> dict[str, Page]:
    """Every page of the docs by its name, in the order in which they are best read."""
    folder = folder or docs_dir()
    found = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}
    return {name: Page(name, _sections(found[name].read_text(encoding="utf-8"))) for name in sorted(found, key=_rank)}


def grouped(known: Mapping[str, Page]) -> dict[str, list[Page]]:
    """The pages by their group, in their order."""
    groups: dict[str, list[Page]] = {}
    for page in known.values():
        groups.setdefault(page.group, []).append(page)
    return groups


def glossary(page: Page) -> list[Term]:
    """The terms that a page prints in bold, by name, each with the paragraphs, list items and rows where it does."""
    terms: dict[str, list[str]] = {}
    for section in page.sections:
        for name, definition in _terms(parser().parse(section.text)):
            told = terms.setdefault(name, [])
            if definition not in told:
                told.append(definition)
    return [Term(name, terms[name]) for name in sorted(terms, key=str.lower)]


def linked(text: str, page: str, places: Places, known: Mapping[str, Page]) -> str:
    """Markdown of a page with its links led to `places`; the path of what is not there is shown as code instead."""

    def lead(link: re.Match[str]) -> str:
        image, label, to = link.groups()
        if re.match(r"[a-z]+:", to):
            return link[0]
        name, anchor = target(to, page)
        if name in known:
            return f"{image}[{label}]({places.page(name, anchor)})"
        file = None if name.startswith("../") else places.file(name)
        if file is not None:
            return f"{image}[{label}]({file})"
        path = posixpath.normpath(posixpath.join("docs", name))
        return f"`{path}`" if path.endswith(label) else f"{label} (`{path}`)"

    return LINK.sub(lead, text)


def target(link: str, page: str) -> tuple[str, str]:
    """What a relative link of a page leads to: a page's name, or a file's path from docs/; and the anchor there."""
    path, _, anchor = link.partition("#")
    if not path:
        return page, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)).removesuffix(".md"), anchor


def matches(words: str, *texts: str) -> bool:
    """Whether each of the words is in one of the texts, whatever its case."""
    whole = "\n".join(texts).lower()
    return all(word in whole for word in words.lower().split())


def html(text: str) -> str:
    """Markdown as HTML; HTML inside it is shown as text. Columns of numbers have a class, for a page without styles."""
    markdown = parser()
    tokens = markdown.parse(text)
    for cell in tokens:
        if cell.attrs.pop("style", None) == "text-align:right":
            cell.attrSet("class", "number")
    rendered: str = markdown.renderer.render(tokens, markdown.options, {})
    return rendered


def plain(text: str) -> str:
    """Markdown of one line as the text that it shows."""
    (block,) = parser().parseInline(text)
    return "".join(child.content for child in block.children or ())


def anchor_of(title: str) -> str:
    """The anchor that a heading has wherever Markdown is shown: GitHub's."""
    return re.sub(r"[^\w\- ]", "", plain(title).lower()).replace(" ", "-")


def parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _rank(name: str) -> tuple[int, int, str]:
    group = list(GROUPS).index(posixpath.dirname(name)) if posixpath.dirname(name) in GROUPS else len(GROUPS)
    return group, FIRST.index(name) if name in FIRST else len(FIRST), name


def _sections(text: str) -> list[Section]:
    lines, tokens = text.splitlines(), parser().parse(text)
    heads = [(token, words) for token, words in pairwise(tokens) if token.type == "heading_open"]
    ends = [_lines(token)[0] for token, _ in heads[1:]] + [len(lines)]
    taken: dict[str, int] = {}
    sections = []
    for (token, words), end in zip(heads, ends, strict=True):
        anchor = anchor_of(words.content)
        again = taken[anchor] = taken.get(anchor, -1) + 1
        body = "\n".join(lines[_lines(token)[1] : end]).strip("\n")
        sections.append(Section(int(token.tag[1]), words.content, f"{anchor}-{again}" if again else anchor, body))
    return sections


def _lines(token: Token) -> Sequence[int]:
    return token.map or (0, 0)


def _terms(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Each term with its definition as Markdown."""
    header: list[str] = []
    row: list[Token] = []
    in_table = False
    for token in tokens:
        if token.type in ("table_open", "table_close"):
            in_table, header = token.type == "table_open", []
        elif token.type == "inline":
            if in_table:
                row.append(token)
            else:
                yield from ((name, token.content) for name in _strong(token))
        elif token.type == "tr_close":
            header = header or [cell.content for cell in row]
            yield from ((name, _row(header, row)) for name in _strong(row[0]))
            row = []


def _strong(block: Token) -> Iterator[str]:
    """What is printed in bold in a block."""
    children = block.children or []
    for at, token in enumerate(children):
        if token.type == "strong_open":
            end = next(i for i in range(at, len(children)) if children[i].type == "strong_close")
            yield "".join(child.content for child in children[at:end])


def _row(header: Sequence[str], cells: Sequence[Token]) -> str:
    """A row of a table as a sentence: what the first cell says, then each column with its name."""
    told = (f"{name}: {cell.content}" for name, cell in zip(header[1:], cells[1:], strict=True) if cell.content)
    return f"{cells[0].content}; {'; '.join(told)}."
