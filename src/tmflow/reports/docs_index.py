"""The docs as a handbook for the portal and the published site: pages, headings and the glossary.

Everything is read from docs/. The terms of the glossary are the words in bold in docs/concepts.md.
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
# The first pages, in this order; the others follow by name.
FIRST = ("concepts", "protocol", "claims", "results", "figures", "strategies", "reading", "experiments", "database")
GROUPS = {"": "The study", "strategies": "Strategies in full", "speed": "Speed, measured", "adr": "Decisions"}
COMMENT = re.compile(r"(?P<code>`[^`\n]*`)|<!--.*?-->", re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class Section(NamedTuple):
    """A heading (level 1 to 6) and the Markdown below it, up to the next heading of any level."""

    level: int
    title: str
    anchor: str
    text: str


class Page(NamedTuple):
    """A page of docs/; `name` is its path without the extension, such as strategies/htm."""

    name: str
    sections: list[Section]

    @property
    def title(self) -> str:
        return self.sections[0].title

    @property
    def group(self) -> str:
        return GROUPS.get(posixpath.dirname(self.name), posixpath.dirname(self.name))


class Term(NamedTuple):
    """A term of the glossary and the Markdown of each definition."""

    name: str
    definitions: list[str]

    @property
    def anchor(self) -> str:
        return anchor_of(self.name)


class LinkTargets(Protocol):
    """Maps the targets of links in the docs to addresses."""

    def page(self, name: str, anchor: str) -> str: ...
    def file(self, path: str) -> str | None:
        """The address of a file in docs/ that is not a page, by its path; None if it is unavailable."""
        ...


def docs_dir() -> Path:
    return project_root() / "docs"


def pages(folder: Path | None = None) -> dict[str, Page]:
    """Load every page of the docs, by name, in reading order."""
    folder = folder or docs_dir()
    paths = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}
    texts = {name: without_comments(paths[name].read_text(encoding="utf-8")) for name in sorted(paths, key=_rank)}
    return {name: Page(name, _sections(text)) for name, text in texts.items()}


def without_comments(text: str) -> str:
    """Remove HTML comments, which the portal would show as text, except those in code within a line."""
    return COMMENT.sub(lambda match: match["code"] or "", text)


def group_pages(docs: Mapping[str, Page]) -> dict[str, list[Page]]:
    """Group pages in reading order; groups and pages keep their order."""
    groups: dict[str, list[Page]] = {}
    for page in docs.values():
        groups.setdefault(page.group, []).append(page)
    return groups


def glossary(page: Page) -> list[Term]:
    """The terms in bold on a page, sorted by name, each with the paragraphs, list items and rows that contain it."""
    terms: dict[str, list[str]] = {}
    for section in page.sections:
        for name, definition in _terms(parser().parse(section.text)):
            definitions = terms.setdefault(name, [])
            if definition not in definitions:
                definitions.append(definition)
    return [Term(name, terms[name]) for name in sorted(terms, key=str.lower)]


def resolve_links(text: str, page: str, places: LinkTargets, docs: Mapping[str, Page]) -> str:
    """Replace the links in a page's Markdown by addresses from `places`; a missing target becomes its path as code."""

    def replace(link: re.Match[str]) -> str:
        image, label, to = link.groups()
        if re.match(r"[a-z]+:", to):
            return link[0]
        name, anchor = target(to, page)
        if name in docs:
            return f"{image}[{label}]({places.page(name, anchor)})"
        file = None if name.startswith("../") else places.file(name)
        if file is not None:
            return f"{image}[{label}]({file})"
        path = posixpath.normpath(posixpath.join("docs", name))
        return f"`{path}`" if path.endswith(label) else f"{label} (`{path}`)"

    return LINK.sub(replace, text)


def target(link: str, page: str) -> tuple[str, str]:
    """Resolve a relative link of a page: the name of a page, or the path of a file in docs/; and the anchor."""
    path, _, anchor = link.partition("#")
    if not path:
        return page, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)).removesuffix(".md"), anchor


def contains_words(words: str, *texts: str) -> bool:
    """Whether every word occurs in one of the texts; case is ignored."""
    text = "\n".join(texts).lower()
    return all(word in text for word in words.lower().split())


def html(text: str) -> str:
    """Render Markdown as HTML; HTML inside it is escaped. Right-aligned cells get the class `number`."""
    markdown = parser()
    tokens = markdown.parse(text)
    for cell in tokens:
        if cell.attrs.pop("style", None) == "text-align:right":
            cell.attrSet("class", "number")
    rendered: str = markdown.renderer.render(tokens, markdown.options, {})
    return rendered


def plain_text(text: str) -> str:
    """The text of one line of Markdown without its markup."""
    (block,) = parser().parseInline(text)
    return "".join(child.content for child in block.children or ())


def anchor_of(title: str) -> str:
    """The anchor of a heading, as GitHub computes it."""
    return re.sub(r"[^\w\- ]", "", plain_text(title).lower()).replace(" ", "-")


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
    """Yield each term with its definition as Markdown."""
    header: list[str] = []
    row: list[Token] = []
    in_table = False
    for at, token in enumerate(tokens):
        if token.type in ("table_open", "table_close"):
            in_table, header = token.type == "table_open", []
        elif token.type == "inline":
            if in_table:
                row.append(token)
            else:
                more = _items(tokens[at + 1 :]) if token.content.rstrip().endswith(":") else ""
                yield from ((name, f"{token.content}{more}") for name in _strong(token))
        elif token.type == "tr_close":
            header = header or [cell.content for cell in row]
            yield from ((name, _row(header, row)) for name in _strong(row[0]))
            row = []


def _items(following: Sequence[Token]) -> str:
    """The items of the list, as Markdown, that begins right after a paragraph; empty if none does."""
    if [token.type for token in following[:2]] != ["paragraph_close", "bullet_list_open"]:
        return ""
    end = next(at for at, token in enumerate(following) if token.type == "bullet_list_close")
    return "".join(f"\n- {token.content}" for token in following[:end] if token.type == "inline")


def _strong(block: Token) -> Iterator[str]:
    """Yield the texts in bold of a block."""
    children = block.children or []
    for at, token in enumerate(children):
        if token.type == "strong_open":
            end = next(i for i in range(at, len(children)) if children[i].type == "strong_close")
            yield "".join(child.content for child in children[at:end])


def _row(header: Sequence[str], cells: Sequence[Token]) -> str:
    """A row of a table as a sentence: the first cell, then each column with its name."""
    fields = (f"{name}: {cell.content}" for name, cell in zip(header[1:], cells[1:], strict=True) if cell.content)
    return f"{cells[0].content}; {'; '.join(fields)}."
